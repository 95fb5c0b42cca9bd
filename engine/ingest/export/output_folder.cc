#include "engine/ingest/export/output_folder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::ingest {

OutputFolder::OutputFolder(io::FileSystem& files,
                           const std::string& destination)
    : files_(files),
      destination_(destination),
      folder_(absl::StrCat(destination, io::kTemporarySuffix)) {}

OutputFolder::~OutputFolder() {
  // The error that led here is the one to report.
  if (!published_) files_.RemoveTree(folder_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Create(
    io::FileSystem& files, const std::string& destination) {
  if (destination.empty()) {
    return absl::InvalidArgumentError("a folder to write needs a path");
  }
  const absl::Status there = files.Stat(destination).status();
  if (there.ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, ": already exists"));
  }
  if (!absl::IsNotFound(there)) return there;
  std::unique_ptr<OutputFolder> folder(new OutputFolder(files, destination));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder->folder_));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder->folder_));
  return folder;
}

absl::StatusOr<std::unique_ptr<io::WritableFile>> OutputFolder::NewFile(
    const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (!made_.insert(parent).second) continue;
    HEARTH_RETURN_IF_ERROR(
        files_.CreateDirectory(io::JoinPath(folder_, parent)));
  }
  return files_.Create(io::JoinPath(folder_, path));
}

absl::StatusOr<std::unique_ptr<ByteSink>> OutputFolder::NewSink(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          NewFile(path));
  return NewFileSink(std::move(file));
}

absl::Status OutputFolder::WriteText(const std::string& path,
                                     absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink, NewSink(path));
  HEARTH_RETURN_IF_ERROR(sink->AppendText(text));
  return sink->Finish();
}

absl::Status OutputFolder::Publish() {
  for (const std::string& folder : made_) {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(io::JoinPath(folder_, folder)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(files_.Rename(folder_, destination_));
  published_ = true;
  const absl::Status status =
      files_.SyncDirectory(io::ParentDirectory(destination_));
  // It is unknown whether the name is durable: take it back.
  if (!status.ok()) files_.RemoveTree(destination_).IgnoreError();
  return status;
}

}  // namespace hearth::ingest
