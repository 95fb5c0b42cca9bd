#ifndef HEARTH_ENGINE_BASE_ROUND_UP_H_
#define HEARTH_ENGINE_BASE_ROUND_UP_H_

#include <concepts>
#include <type_traits>

namespace hearth {

/// The least multiple of `multiple` that is at least `value`. REQUIRES: value
/// >= 0; multiple > 0; value + multiple - 1 does not overflow.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_ROUND_UP_H_
