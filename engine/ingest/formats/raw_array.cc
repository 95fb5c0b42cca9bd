#include "engine/ingest/formats/raw_array.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

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

}  // namespace

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

}  // namespace hearth::ingest
