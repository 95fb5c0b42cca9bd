#include "engine/plan/layout/row_image.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace hearth::plan {
namespace {

constexpr uint64_t kReadBytes = 4 << 20;

}  // namespace

absl::Status LoadRowImage(io::FileSystem& files, const std::string& path,
                          uint32_t crc, absl::Span<std::byte> out,
                          const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(path));
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint32_t read_crc = 0;
    for (uint64_t at = 0; at < out.size(); at += kReadBytes) {
      if (stop.stop_requested()) {
        return absl::CancelledError(
            absl::StrCat(path, ": loading stopped on request"));
      }
      const absl::Span<std::byte> part =
          out.subspan(at, std::min(kReadBytes, out.size() - at));
      HEARTH_RETURN_IF_ERROR(file->Read(at, part));
      read_crc = Crc32c(part, read_crc);
    }
    if (read_crc == crc) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path, ": is damaged (its checksum does not match)"));
}

}  // namespace hearth::plan
