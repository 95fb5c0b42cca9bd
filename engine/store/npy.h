#ifndef HEARTH_ENGINE_STORE_NPY_H_
#define HEARTH_ENGINE_STORE_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/array_header.h"
#include "engine/store/dtype.h"

namespace hearth::store {

/// Longest header that is read; numpy's own are 128 bytes.
inline constexpr uint64_t kMaxNpyHeaderBytes = 1 << 20;

/// Reads and checks the header of `file`, versions 1 to 3: no object and no
/// structured arrays, little-endian, and the elements fill the rest of the
/// file exactly. DATA_LOSS if the file is too short, INVALID_ARGUMENT for
/// anything else that is wrong; both name the file.
absl::StatusOr<ArrayHeader> ReadNpyHeader(io::ReadableFile& file);

/// A header for a C-order array, padded so that the data begins at a multiple
/// of `alignment` bytes (64 .. 32768). bfloat16, which numpy lacks, is "<u2".
std::string FormatNpyHeader(DType dtype, absl::Span<const int64_t> shape,
                            uint64_t alignment);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NPY_H_
