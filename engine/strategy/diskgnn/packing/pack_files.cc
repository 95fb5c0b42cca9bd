#include "engine/strategy/diskgnn/packing/pack_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/strategy/diskgnn/packing/layout_index.h"

namespace hearth::strategy {
namespace {

constexpr const char* kDataFiles[] = {kPacksFile, kDiskCacheFile,
                                      kDiskChecksumsFile, kGpuCacheFile,
                                      kCpuCacheFile};

}  // namespace

PackFiles::PackFiles(io::FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

PackFiles::~PackFiles() {
  // An error has been told already.
  if (!committed_) RemoveAll().IgnoreError();
}

absl::Status PackFiles::Begin() {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return RemoveAll();
}

absl::Status PackFiles::RemoveAll() {
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, kIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(kIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(name)));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return RemoveScratch();
}

absl::Status PackFiles::RemoveScratch() {
  for (const char* name : {kDispatchFile, kDiskOrderFile, kDiskRowsFile}) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

std::string PackFiles::Temporary(const char* name) const {
  return absl::StrCat(io::JoinPath(folder_, name), io::kTemporarySuffix);
}

absl::Status PackFiles::Commit(const PackedLayout& layout) {
  // A kill after the index would leave them for as long as the plan is there.
  HEARTH_RETURN_IF_ERROR(RemoveScratch());
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(
        files_.Rename(Temporary(name), io::JoinPath(folder_, name)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(WriteLayoutIndex(files_, folder_, layout));
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace hearth::strategy
