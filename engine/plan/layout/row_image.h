#ifndef HEARTH_ENGINE_PLAN_LAYOUT_ROW_IMAGE_H_
#define HEARTH_ENGINE_PLAN_LAYOUT_ROW_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::plan {

/// Fills `out`, aligned to a page, with the whole file `path` (gpu_cache or
/// cpu_cache of a plan), past the page cache, and compares it with `crc`. What
/// does not match is read once more, and is then DATA_LOSS naming the file;
/// CANCELLED when `stop` is requested.
absl::Status LoadRowImage(io::FileSystem& files, const std::string& path,
                          uint32_t crc, absl::Span<std::byte> out,
                          const std::stop_token& stop);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_LAYOUT_ROW_IMAGE_H_
