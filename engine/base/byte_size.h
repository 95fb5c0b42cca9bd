#ifndef HEARTH_ENGINE_BASE_BYTE_SIZE_H_
#define HEARTH_ENGINE_BASE_BYTE_SIZE_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth {

/// `value` rounded up to a multiple of `multiple`. REQUIRES: value >= 0;
/// multiple > 0; value + multiple - 1 does not overflow.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Parses sizes such as "512", "4KiB", "1.5GiB", "10MB" into bytes: units with
/// an i are powers of 1,024, units without are powers of 1,000; spaces before
/// the unit are allowed. INVALID_ARGUMENT for anything else, negative sizes and
/// sizes of 2^63 bytes or more.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

/// Text such as "459.6 MiB": three or four digits and a unit that is a power of
/// 1,024.
std::string FormatByteSize(uint64_t bytes);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_BYTE_SIZE_H_
