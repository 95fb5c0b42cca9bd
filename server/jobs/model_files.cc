#include "server/jobs/model_files.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/job/checkpoint/export_model.h"

namespace hearth::server {

absl::StatusOr<std::string> ModelFolder(const DataDir& data_dir,
                                        const v1::Job& job) {
  if (!job.spec().has_train() || job.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("only a train job that has SUCCEEDED has a model; ",
                     job.id(), " is ", v1::JobState_Name(job.state())));
  }
  const std::string& path = job.report().train().model_path();
  if (path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " trained no model"));
  }
  return io::JoinPath(data_dir.JobPath(job.id()),
                      path.substr(path.rfind('/') + 1));
}

namespace {

absl::Span<std::byte> BytesOf(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelReader>> ModelReader::Open(
    io::FileSystem& files, const std::string& folder) {
  std::unique_ptr<ModelReader> reader(new ModelReader());
  HEARTH_ASSIGN_OR_RETURN(*reader->model_.mutable_config(),
                          job::ReadModelConfig(files, folder));
  HEARTH_ASSIGN_OR_RETURN(reader->file_,
                          files.OpenForRead(job::ModelFilePath(folder)));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, reader->file_->Info());
  reader->model_.set_size_bytes(info.size_bytes);
  return reader;
}

absl::StatusOr<bool> ModelReader::Digest() {
  const uint64_t step =
      std::min<uint64_t>(kStepBytes, model_.size_bytes() - digested_);
  std::string bytes(step, '\0');
  HEARTH_RETURN_IF_ERROR(file_->Read(digested_, BytesOf(bytes)));
  digest_.Update(bytes);
  digested_ += step;
  if (digested_ < model_.size_bytes()) return false;
  model_.set_sha256(digest_.HexDigest());
  return true;
}

absl::StatusOr<std::string> ModelReader::Read(uint64_t offset) {
  std::string bytes(
      std::min<uint64_t>(kPieceBytes, model_.size_bytes() - offset), '\0');
  HEARTH_RETURN_IF_ERROR(file_->Read(offset, BytesOf(bytes)));
  return bytes;
}

}  // namespace hearth::server
