#include "engine/plan/partition/partition_files.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::plan {
namespace {

constexpr const char* kDataFiles[] = {kPartListsFile, kTrainingNodesFile,
                                      kPartsFile, kCrossCountsFile};
constexpr const char* kScratchFile = "partition.scatter";

}  // namespace

PartitionFiles::~PartitionFiles() {
  // An error has been told already.
  if (!committed_) RemoveAll().IgnoreError();
}

absl::Status PartitionFiles::Begin() {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return RemoveAll();
}

absl::Status PartitionFiles::RemoveAll() {
  HEARTH_RETURN_IF_ERROR(
      files_.RemoveTree(io::JoinPath(folder_, kPartitionIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(kPartitionIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(name)));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return RemoveScratch();
}

std::string PartitionFiles::Temporary(const char* name) const {
  return absl::StrCat(io::JoinPath(folder_, name), io::kTemporarySuffix);
}

std::string PartitionFiles::Scratch() const { return Temporary(kScratchFile); }

absl::Status PartitionFiles::Commit(const PartitionIndex& index) {
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(
        files_.Rename(Temporary(name), io::JoinPath(folder_, name)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(WritePartitionIndex(files_, folder_, index));
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace hearth::plan
