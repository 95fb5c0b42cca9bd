#include "engine/ingest/formats/source_folder.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/source/array_reader.h"

namespace hearth::ingest {
namespace {

constexpr size_t kMaxNamedFiles = 10;
constexpr std::array<absl::string_view, 9> kArraySuffixes = {
    ".npy", ".npz", ".pt",     ".pth",    ".bin",
    ".dat", ".csv", ".csv.gz", ".parquet"};

bool LooksLikeArrays(absl::string_view name) {
  return std::any_of(
      kArraySuffixes.begin(), kArraySuffixes.end(),
      [&](absl::string_view suffix) { return absl::EndsWith(name, suffix); });
}

}  // namespace

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
  if (!absl::IsNotFound(status)) return status;
  HEARTH_RETURN_IF_ERROR(CheckIsNoLink(files, path));
  return false;
}

absl::Status WarnOfUnusedFiles(io::FileSystem& files, const std::string& folder,
                               const std::vector<std::string>& used,
                               std::vector<std::string>& warnings) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(names.status());
  std::vector<std::string> unused;
  for (const std::string& name : *names) {
    if (LooksLikeArrays(name) &&
        std::find(used.begin(), used.end(), name) == used.end()) {
      unused.push_back(absl::Utf8SafeCEscape(name));
    }
  }
  if (unused.empty()) return absl::OkStatus();
  const size_t all = unused.size();
  if (all > kMaxNamedFiles) unused.resize(kMaxNamedFiles);
  warnings.push_back(absl::StrCat(
      folder, ": ", absl::StrJoin(unused, ", "),
      all > unused.size() ? absl::StrCat(" and ", all - unused.size(), " more")
                          : "",
      all == 1 ? " is" : " are", " left out: the import does not use ",
      all == 1 ? "it" : "them"));
  return absl::OkStatus();
}

}  // namespace hearth::ingest
