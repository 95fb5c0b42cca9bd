#ifndef HEARTH_ENGINE_BASE_BYTE_SIZE_H_
#define HEARTH_ENGINE_BASE_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth {

/// Bytes in "512", "4KiB", "1.5GiB", "10MB" (powers of 1,024 with an i, of
/// 1,000 without; spaces before the unit are allowed). INVALID_ARGUMENT for
/// anything else, negative sizes and sizes of 2^63 bytes or more.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

/// "459.6 MiB": three or four digits and a unit of powers of 1,024.
std::string FormatByteSize(uint64_t bytes);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_BYTE_SIZE_H_
