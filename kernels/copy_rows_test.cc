#include "kernels/copy_rows.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/every_target_fixture.h"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

// The value of `half`, by the definition of IEEE 754 binary16.
float HalfToFloat(uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = half >> 10 & 31;
  const int fraction = half & 0x3FF;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

float Reference(ElementType type, const std::byte* element) {
  if (type == ElementType::kFloat32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return type == ElementType::kFloat16
             ? HalfToFloat(bits)
             : std::bit_cast<float>(uint32_t{bits} << 16);
}

int64_t ElementBytes(ElementType type) {
  if (type == ElementType::kScaledInt8) return 1;
  return type == ElementType::kFloat32 ? 4 : 2;
}

int64_t RowBytes(ElementType type, int64_t dim) {
  return dim * ElementBytes(type) +
         (type == ElementType::kScaledInt8 ? kScaleBytes : 0);
}

// Element `column` of a row of `dim` elements.
float Reference(ElementType type, const std::byte* row, int64_t dim,
                int64_t column) {
  if (type != ElementType::kScaledInt8) {
    return Reference(type, row + column * ElementBytes(type));
  }
  float scale = 0;
  std::memcpy(&scale, row + dim, sizeof(scale));
  return static_cast<float>(static_cast<int8_t>(row[column])) * scale;
}

class GatherPatternsTest : public EveryTargetTest<ElementType> {};

// All 65,536 patterns, as one long row, which is widened in vectors, and as one
// row each, which is not.
TEST_P(GatherPatternsTest, WidensEveryPatternExactly) {
  std::vector<uint16_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), uint16_t{0});
  const auto* data = reinterpret_cast<const std::byte*>(patterns.data());
  const int64_t first_row = 0;
  std::vector<float> one_row(patterns.size());
  GatherRows({data, parameter(), 65536}, &first_row, 1, one_row.data());
  std::vector<int64_t> all(patterns.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> many_rows(patterns.size());
  GatherRows({data, parameter(), 1}, all.data(), 65536, many_rows.data());
  for (size_t i = 0; i < patterns.size(); ++i) {
    const float expected = Reference(parameter(), data + 2 * i);
    const auto bits = std::bit_cast<uint32_t>(one_row[i]);
    ASSERT_EQ(bits, std::bit_cast<uint32_t>(many_rows[i])) << i;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(one_row[i])) << i;
      ASSERT_EQ(bits >> 31, i >> 15) << i;
    } else {
      ASSERT_EQ(bits, std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, GatherPatternsTest,
    ::testing::Combine(EveryTarget(),
                       ::testing::Values(ElementType::kFloat16,
                                         ElementType::kBFloat16)),
    TargetAnd([](ElementType type) {
      return std::string(type == ElementType::kFloat16 ? "float16"
                                                       : "bfloat16");
    }));

TEST(WidenTest, KeepsThePayloadOfNaNs) {
  EXPECT_EQ(std::bit_cast<uint32_t>(WidenFloat16(0x7D01)), 0x7FA02000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(WidenFloat16(0xFD01)), 0xFFA02000u);
}

// Bytes of positive and negative numbers, of which none is an infinity or a
// NaN: without the sign they are below 0x78.
std::vector<std::byte> FinitePatterns(int64_t bytes) {
  std::vector<std::byte> patterns(bytes);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] =
        static_cast<std::byte>((i * 37 + i / 256) % 0x78 | i % 3 % 2 << 7);
  }
  return patterns;
}

struct GatherCase {
  ElementType type;
  const char* name;
  // Bytes from a 64-byte boundary to the first row.
  int64_t offset;
};

class GatherSizesTest : public EveryTargetTest<GatherCase> {};

// Rows of every size about the widths of vectors, in numbers about how many are
// asked for ahead, with repeats, from rows that begin anywhere.
TEST_P(GatherSizesTest, IsTheReference) {
  constexpr int64_t kNumRows = 50;
  const auto [type, name, offset] = parameter();
  for (const int64_t dim : {0, 1, 7, 15, 16, 17, 31, 32, 33, 127, 130}) {
    const int64_t row_bytes = RowBytes(type, dim);
    const std::vector<std::byte> memory =
        FinitePatterns(offset + kNumRows * row_bytes);
    const std::byte* rows = memory.data() + offset;
    for (const int64_t count : {0, 1, 7, 8, 9, 31, 32, 33, 100}) {
      std::vector<int64_t> indices(count);
      for (int64_t i = 0; i < count; ++i) indices[i] = i * i * 7 % kNumRows;
      std::vector<float> out(count * dim + 1, -1);
      GatherRows({rows, type, dim}, indices.data(), count, out.data());
      for (int64_t i = 0; i < count * dim; ++i) {
        ASSERT_EQ(out[i], Reference(type, rows + indices[i / dim] * row_bytes,
                                    dim, i % dim))
            << "dim " << dim << " count " << count << " element " << i;
      }
      ASSERT_EQ(out.back(), -1) << "written beyond the end";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, GatherSizesTest,
    ::testing::Combine(
        EveryTarget(),
        ::testing::Values(
            GatherCase{ElementType::kFloat32, "float32", 0},
            GatherCase{ElementType::kFloat32, "float32_unaligned", 3},
            GatherCase{ElementType::kFloat16, "float16", 0},
            GatherCase{ElementType::kFloat16, "float16_unaligned", 1},
            GatherCase{ElementType::kBFloat16, "bfloat16", 0},
            GatherCase{ElementType::kBFloat16, "bfloat16_unaligned", 1},
            GatherCase{ElementType::kScaledInt8, "scaled_int8", 0},
            GatherCase{ElementType::kScaledInt8, "scaled_int8_unaligned", 1})),
    TargetAnd([](const GatherCase& c) { return std::string(c.name); }));

// Every other row lies in a slot, the others among those that were read.
TEST_P(GatherSizesTest, ByAddressIsTheReference) {
  constexpr uint32_t kNumSlots = 30;
  const auto [type, name, offset] = parameter();
  for (const int64_t dim : {0, 1, 15, 16, 17, 130}) {
    const int64_t row_bytes = RowBytes(type, dim);
    const std::vector<std::byte> memory =
        FinitePatterns(offset + (kNumSlots + 20) * row_bytes);
    const std::byte* rows = memory.data() + offset;
    for (const int64_t count : {0, 1, 7, 8, 9, 33}) {
      std::vector<uint32_t> addresses(count + 2);
      for (size_t i = 0; i < addresses.size(); ++i) {
        addresses[i] = i % 2 == 0 ? i * 7 % kNumSlots : kNumSlots + i * 3 % 20;
      }
      std::vector<float> out(count * dim + 1, -1);
      GatherRows(AddressedRows{.slots = rows,
                               .landed = rows + kNumSlots * row_bytes,
                               .num_slots = kNumSlots,
                               .type = type,
                               .dim = dim,
                               .addresses = addresses.data()},
                 /*first=*/2, count, out.data());
      for (int64_t i = 0; i < count * dim; ++i) {
        ASSERT_EQ(out[i],
                  Reference(type, rows + addresses[2 + i / dim] * row_bytes,
                            dim, i % dim))
            << "dim " << dim << " count " << count << " element " << i;
      }
      ASSERT_EQ(out.back(), -1) << "written beyond the end";
    }
  }
}

constexpr float kUntouched = -1;

struct ScatterCase {
  ElementType type;
  const char* name;
  // Bytes from a 64-byte boundary to the first row.
  int64_t offset;
  // Whether rows are named by slots, instead of taken in order.
  bool slots;
};

class ScatterTest : public EveryTargetTest<ScatterCase> {
 protected:
  // Scatters `count` of 200 rows to every third position of the output, from
  // the last one to the first.
  void ExpectEachRowAtItsPosition(int64_t dim, int64_t count) {
    const auto [type, name, offset, with_slots] = parameter();
    const int64_t row_bytes = RowBytes(type, dim);
    const std::vector<std::byte> memory =
        FinitePatterns(offset + 200 * row_bytes);
    const std::byte* rows = memory.data() + offset;
    std::vector<int64_t> slots(count);
    std::vector<int32_t> positions(count);
    for (int64_t i = 0; i < count; ++i) {
      slots[i] = i * i * 7 % 200;
      positions[i] = static_cast<int32_t>(3 * (count - 1 - i));
    }
    std::vector<float> out(3 * count * dim + 1, kUntouched);
    ScatterRows({rows, type, dim}, with_slots ? slots.data() : nullptr,
                positions.data(), count, out.data());
    std::vector<float> expected(out.size(), kUntouched);
    for (int64_t i = 0; i < count * dim; ++i) {
      const int64_t row = with_slots ? slots[i / dim] : i / dim;
      expected[positions[i / dim] * dim + i % dim] =
          Reference(type, rows + row * row_bytes, dim, i % dim);
    }
    EXPECT_EQ(out, expected) << "dim " << dim << " count " << count;
  }
};

TEST_P(ScatterTest, EachRowIsAtItsPositionAndNothingElseIsTouched) {
  for (const int64_t dim : {0, 1, 7, 15, 16, 17, 31, 32, 33, 130}) {
    for (const int64_t count : {0, 1, 7, 8, 9, 31, 32, 33, 200}) {
      ExpectEachRowAtItsPosition(dim, count);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, ScatterTest,
    ::testing::Combine(
        EveryTarget(),
        ::testing::Values(
            ScatterCase{ElementType::kFloat32, "float32", 0, false},
            ScatterCase{ElementType::kFloat32, "float32_slots", 0, true},
            ScatterCase{ElementType::kFloat32, "float32_slots_unaligned", 3,
                        true},
            ScatterCase{ElementType::kFloat16, "float16", 0, false},
            ScatterCase{ElementType::kFloat16, "float16_slots_unaligned", 1,
                        true},
            ScatterCase{ElementType::kBFloat16, "bfloat16", 0, false},
            ScatterCase{ElementType::kBFloat16, "bfloat16_slots_unaligned", 1,
                        true},
            ScatterCase{ElementType::kScaledInt8, "scaled_int8", 0, false},
            ScatterCase{ElementType::kScaledInt8, "scaled_int8_slots_unaligned",
                        1, true})),
    TargetAnd([](const ScatterCase& c) { return std::string(c.name); }));

TEST(ScatterRowsTest, NoRowsTouchNothing) {
  ScatterRows({nullptr, ElementType::kFloat32, 2}, nullptr, nullptr, 0,
              nullptr);
}

}  // namespace
}  // namespace hearth::kernels
