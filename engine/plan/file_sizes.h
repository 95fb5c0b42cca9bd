#ifndef HEARTH_ENGINE_PLAN_FILE_SIZES_H_
#define HEARTH_ENGINE_PLAN_FILE_SIZES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::plan {

/// Checks the files of a finished plan, each given by its name in `folder` and
/// its size in bytes. DATA_LOSS naming the file if one is missing or has
/// another size.
absl::Status CheckFileSizes(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const std::pair<const char*, uint64_t>> expected);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_FILE_SIZES_H_
