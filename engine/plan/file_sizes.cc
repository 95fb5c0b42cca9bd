#include "engine/plan/file_sizes.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::plan {

absl::Status CheckFileSizes(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const std::pair<const char*, uint64_t>> expected) {
  for (const auto& [name, bytes] : expected) {
    const std::string path = io::JoinPath(folder, name);
    const absl::StatusOr<io::FileInfo> info = files.Stat(path);
    if (absl::IsNotFound(info.status())) {
      return absl::DataLossError(
          absl::StrCat(path, ": is missing, though the plan is finished"));
    }
    HEARTH_RETURN_IF_ERROR(info.status());
    if (info->size_bytes != bytes) {
      return absl::DataLossError(absl::StrCat(path, ": has ", info->size_bytes,
                                              " bytes, not ", bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::plan
