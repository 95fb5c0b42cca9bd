#include "engine/store/float16.h"

#include <cmath>
#include <cstring>

#include "gtest/gtest.h"

namespace hearth::store {
namespace {

TEST(Float16Test, EveryBitPatternIsWhatTheCompilerSays) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    _Float16 expected;
    std::memcpy(&expected, &narrow, sizeof(expected));
    const double value = Float16ToDouble(narrow);
    if (std::isnan(static_cast<double>(expected))) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(value, static_cast<double>(expected)) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    }
  }
}

}  // namespace
}  // namespace hearth::store
