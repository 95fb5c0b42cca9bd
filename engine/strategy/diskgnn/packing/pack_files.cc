#include "engine/strategy/diskgnn/packing/pack_files.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"

namespace hearth::strategy {

namespace {

constexpr const char* kDataFiles[] = {kPacksFile, kDiskCacheFile,
                                      kDiskChecksumsFile, kGpuCacheFile,
                                      kCpuCacheFile};

}  // namespace

PackFiles::PackFiles(io::FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

PackFiles::~PackFiles() {
  // The error that led here was reported.
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
  // Scratch files go first: after a kill behind the index they would stay as
  // long as the plan.
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
