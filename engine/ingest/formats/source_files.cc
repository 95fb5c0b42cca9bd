#include "engine/ingest/formats/source_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/ingest/source/array_reader.h"

namespace hearth::ingest {

namespace {

constexpr size_t kMaxNamedFiles = 10;
constexpr std::array<absl::string_view, 9> kArraySuffixes = {
    ".npy", ".npz", ".pt",     ".pth",    ".bin",
    ".dat", ".csv", ".csv.gz", ".parquet"};

constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);

constexpr std::array<store::ElementType, 13> kTypes = {{
    {store::ElementType::Kind::kBool, 1},
    {store::ElementType::Kind::kInt, 1},
    {store::ElementType::Kind::kInt, 2},
    {store::ElementType::Kind::kInt, 4},
    {store::ElementType::Kind::kInt, 8},
    {store::ElementType::Kind::kUint, 1},
    {store::ElementType::Kind::kUint, 2},
    {store::ElementType::Kind::kUint, 4},
    {store::ElementType::Kind::kUint, 8},
    {store::ElementType::Kind::kFloat, 2},
    {store::ElementType::Kind::kFloat, 4},
    {store::ElementType::Kind::kFloat, 8},
    {store::ElementType::Kind::kBFloat, 2},
}};

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

absl::StatusOr<bool> HasNpyHeader(io::FileSystem& files,
                                  const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (info.size_bytes < kNpyMagic.size()) return false;
  std::array<std::byte, kNpyMagic.size()> start;
  HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(start)));
  return std::memcmp(start.data(), kNpyMagic.data(), start.size()) == 0;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenRawArray(
    io::FileSystem& files, const std::string& path, store::ArrayHeader header) {
  HEARTH_ASSIGN_OR_RETURN(const bool is_npy, HasNpyHeader(files, path));
  if (is_npy) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": begins with the header of an .npy file; nothing but the ",
        "elements must be in it"));
  }
  return ArrayReader::OpenRaw(files, path, std::move(header));
}

absl::StatusOr<store::ElementType> ParseElementType(absl::string_view name) {
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(),
                   [&](store::ElementType type) { return Name(type) == name; });
  if (found != kTypes.end()) return *found;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CEscape(name), "\" is no type of elements"));
}

std::optional<SourceEdges> EdgesOfType(absl::string_view name,
                                       absl::string_view separator) {
  const std::vector<std::string> parts = absl::StrSplit(name, separator);
  const auto is_empty = [](const std::string& part) { return part.empty(); };
  if (parts.size() != 3 || std::any_of(parts.begin(), parts.end(), is_empty)) {
    return std::nullopt;
  }
  SourceEdges edges;
  edges.type = absl::StrJoin(parts, ":");
  edges.source_type = parts[0];
  edges.destination_type = parts[2];
  return edges;
}

}  // namespace hearth::ingest
