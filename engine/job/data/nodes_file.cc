#include "engine/job/data/nodes_file.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::job {
namespace {

using store::NodeId;

constexpr uint64_t kAlignment = 64;

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string HeaderOf(const NodesFile& file) {
  return store::FormatNpyHeader(store::DType::kInt64, {file.count}, kAlignment);
}

}  // namespace

absl::Status NodeChecker::Check(absl::Span<const NodeId> ids) {
  for (const NodeId id : ids) {
    const int64_t position = next_position_++;
    if (id < 0 || static_cast<size_t>(id) >= has_come_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ids[", position, "]: must be from 0 to ",
          static_cast<int64_t>(has_come_.size()) - 1, ", not ", id));
    }
    if (has_come_[static_cast<size_t>(id)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("ids[", position, "]: ", id, " is there twice"));
    }
    has_come_[static_cast<size_t>(id)] = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NodesFileWriter>> NodesFileWriter::Create(
    io::FileSystem& files, const NodesFile& file, std::string temporary_path,
    int64_t num_nodes) {
  if (file.count > num_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("count: must be at most ", num_nodes,
                     ", the number of the nodes, not ", file.count));
  }
  std::unique_ptr<NodesFileWriter> writer(
      new NodesFileWriter(files, file, std::move(temporary_path), num_nodes));
  HEARTH_ASSIGN_OR_RETURN(writer->out_, files.Create(writer->temporary_path_));
  const std::string header = HeaderOf(file);
  HEARTH_RETURN_IF_ERROR(writer->out_->Allocate(
      header.size() + static_cast<uint64_t>(file.count) * sizeof(NodeId)));
  HEARTH_RETURN_IF_ERROR(writer->out_->Append(BytesOf(header)));
  return writer;
}

NodesFileWriter::~NodesFileWriter() {
  if (out_ == nullptr) return;
  out_ = nullptr;
  files_.RemoveTree(temporary_path_).IgnoreError();
}

absl::Status NodesFileWriter::Append(absl::Span<const std::byte> ids) {
  if (ids.size() % sizeof(NodeId) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids: must be of 8 bytes each, not ", ids.size(), " bytes together"));
  }
  std::vector<NodeId> nodes(ids.size() / sizeof(NodeId));
  std::memcpy(nodes.data(), ids.data(), ids.size());
  HEARTH_RETURN_IF_ERROR(checker_.Check(nodes));
  count_ += static_cast<int64_t>(nodes.size());
  if (count_ > file_.count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids: must be ", file_.count, ", as the job says, and are more"));
  }
  digest_.Update(ids);
  return out_->Append(ids);
}

absl::Status NodesFileWriter::Finish() {
  if (count_ != file_.count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids: must be ", file_.count, ", as the job says, not ", count_));
  }
  if (digest_.HexDigest() != file_.sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids: their SHA-256 must be ", file_.sha256, ", not ",
                     digest_.HexDigest()));
  }
  HEARTH_RETURN_IF_ERROR(out_->Sync());
  HEARTH_RETURN_IF_ERROR(files_.Rename(temporary_path_, file_.path));
  out_ = nullptr;
  return files_.SyncDirectory(io::ParentDirectory(file_.path));
}

absl::StatusOr<std::vector<NodeId>> LoadNodesFile(io::FileSystem& files,
                                                  const NodesFile& file,
                                                  int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> in,
                          files.OpenForRead(file.path));
  const std::string header = HeaderOf(file);
  std::string found(header.size(), '\0');
  std::vector<NodeId> nodes(static_cast<size_t>(file.count));
  const auto bytes = absl::MakeSpan(reinterpret_cast<std::byte*>(nodes.data()),
                                    nodes.size() * sizeof(NodeId));
  HEARTH_RETURN_IF_ERROR(
      in->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(found.data()),
                                 found.size())));
  HEARTH_RETURN_IF_ERROR(in->Read(header.size(), bytes));
  Sha256 digest;
  digest.Update(bytes);
  if (found != header || digest.HexDigest() != file.sha256) {
    return absl::DataLossError(
        absl::StrCat(file.path, ": is not as it was written"));
  }
  // The dataset may be another one by now.
  HEARTH_RETURN_IF_ERROR(
      Annotate(NodeChecker(num_nodes).Check(nodes), file.path));
  return nodes;
}

}  // namespace hearth::job
