#include "engine/ingest/formats/source_folder.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {

absl::Status CheckIsFolder(io::FileSystem& files, const std::string& path) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(path);
  if (absl::IsNotFound(info.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": there is no such folder"));
  }
  HEARTH_RETURN_IF_ERROR(info.status());
  if (info->is_directory) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is not a folder"));
}

absl::StatusOr<bool> Exists(io::FileSystem& files, const std::string& path) {
  const absl::Status status = files.Stat(path).status();
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

}  // namespace hearth::ingest
