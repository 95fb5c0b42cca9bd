#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ROW_IMAGE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ROW_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::strategy {

/// The rows of a memory level as a file: gpu_cache or cpu_cache of a plan.
struct RowImage {
  std::string path;
  uint32_t crc = 0;
  uint64_t bytes = 0;
};

/// Fills `out`, image.bytes aligned to a page, with the file, past the page
/// cache, and compares it with its checksum. What does not match is read once
/// more, and is then DATA_LOSS naming the file; CANCELLED when `stop` is
/// requested.
absl::Status LoadRowImage(io::FileSystem& files, const RowImage& image,
                          absl::Span<std::byte> out,
                          const std::stop_token& stop);

/// Takes bytes of an image and the offset of the first one.
using TakeImagePart =
    std::function<absl::Status(uint64_t, absl::Span<const std::byte>)>;

/// The same for rows that are to lie where files cannot be read into: hands the
/// image to `take` in parts, in their order, each of which is in `buffer`,
/// whole pages aligned to a page, until `take` returns. Where the image is read
/// once more, `take` is given all of it again. Returns the errors of `take`,
/// too.
absl::Status StreamRowImage(io::FileSystem& files, const RowImage& image,
                            absl::Span<std::byte> buffer,
                            const TakeImagePart& take,
                            const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ROW_IMAGE_H_
