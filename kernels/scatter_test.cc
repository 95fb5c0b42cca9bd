#include "kernels/scatter.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/every_target_fixture.h"
#include "kernels/feature_rows.h"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

constexpr float kUntouched = -1;

float Reference(ElementType type, const std::byte* element) {
  if (type == ElementType::kFloat32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return type == ElementType::kFloat16 ? WidenFloat16(bits)
                                       : WidenBFloat16(bits);
}

int64_t ElementBytes(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : 2;
}

struct Case {
  ElementType type;
  const char* name;
  // Bytes from a 64-byte boundary to the first row.
  int64_t offset;
  // Whether rows are named, and not taken in their order.
  bool slots;
};

class ScatterTest : public EveryTargetTest<Case> {
 protected:
  // Scatters `count` of 200 rows to every third position of the output, from
  // the last one to the first.
  void ExpectEachRowAtItsPosition(int64_t dim, int64_t count) {
    const auto [type, name, offset, with_slots] = parameter();
    const int64_t row_bytes = dim * ElementBytes(type);
    std::vector<std::byte> memory(offset + 200 * row_bytes);
    for (size_t i = 0; i < memory.size(); ++i) {
      // Below 0x78, so that no pattern is an infinity or a NaN.
      memory[i] = static_cast<std::byte>((i * 37 + i / 256) % 0x78);
    }
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
      expected[positions[i / dim] * dim + i % dim] = Reference(
          type, rows + row * row_bytes + i % dim * ElementBytes(type));
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
            Case{ElementType::kFloat32, "float32", 0, false},
            Case{ElementType::kFloat32, "float32_slots", 0, true},
            Case{ElementType::kFloat32, "float32_slots_unaligned", 3, true},
            Case{ElementType::kFloat16, "float16", 0, false},
            Case{ElementType::kFloat16, "float16_slots_unaligned", 1, true},
            Case{ElementType::kBFloat16, "bfloat16", 0, false},
            Case{ElementType::kBFloat16, "bfloat16_slots_unaligned", 1, true})),
    TargetAnd([](const Case& c) { return std::string(c.name); }));

TEST(ScatterRowsTest, NoRowsTouchNothing) {
  ScatterRows({nullptr, ElementType::kFloat32, 2}, nullptr, nullptr, 0,
              nullptr);
}

}  // namespace
}  // namespace hearth::kernels
