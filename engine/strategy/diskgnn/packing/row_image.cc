#include "engine/strategy/diskgnn/packing/row_image.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kReadBytes = 4 << 20;

// Parts of `bytes`, each read into place(offset) and then given to `take`.
struct Parts {
  uint64_t bytes = 0;
  std::function<std::byte*(uint64_t)> place;
  TakeImagePart take;
};

absl::Status ReadImage(io::FileSystem& files, const RowImage& image,
                       const Parts& parts, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(image.path));
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < image.bytes; at += parts.bytes) {
      if (stop.stop_requested()) {
        return absl::CancelledError(
            absl::StrCat(image.path, ": loading stopped on request"));
      }
      const absl::Span<std::byte> part(parts.place(at),
                                       std::min(parts.bytes, image.bytes - at));
      HEARTH_RETURN_IF_ERROR(file->Read(at, part));
      crc = Crc32c(part, crc);
      HEARTH_RETURN_IF_ERROR(parts.take(at, part));
    }
    if (crc == image.crc) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(image.path, ": is damaged (its checksum does not match)"));
}

}  // namespace

absl::Status LoadRowImage(io::FileSystem& files, const RowImage& image,
                          absl::Span<std::byte> out,
                          const std::stop_token& stop) {
  return ReadImage(
      files, image,
      {.bytes = kReadBytes,
       .place = [&](uint64_t at) { return out.data() + at; },
       .take = [](uint64_t,
                  absl::Span<const std::byte>) { return absl::OkStatus(); }},
      stop);
}

absl::Status StreamRowImage(io::FileSystem& files, const RowImage& image,
                            absl::Span<std::byte> buffer,
                            const TakeImagePart& take,
                            const std::stop_token& stop) {
  return ReadImage(files, image,
                   {.bytes = buffer.size(),
                    .place = [&](uint64_t) { return buffer.data(); },
                    .take = take},
                   stop);
}

}  // namespace hearth::strategy
