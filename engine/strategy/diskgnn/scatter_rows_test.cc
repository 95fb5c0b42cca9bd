#include "engine/strategy/diskgnn/scatter_rows.h"

#include <cstdint>
#include <vector>

#include "engine/store/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::ElementsAre;

const std::byte* BytesOf(const auto& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

TEST(ScatterRowsTest, EachRowGoesToItsPosition) {
  const std::vector<float> rows = {1, 2, 3, 4};
  const std::vector<int32_t> positions = {2, 0};
  std::vector<float> out(6, -1);
  ScatterRows({.dim = 2}, BytesOf(rows), positions, out.data());
  EXPECT_THAT(out, ElementsAre(3, 4, -1, -1, 1, 2));
}

TEST(ScatterRowsTest, HalvesAreWidened) {
  const std::vector<uint16_t> rows = {0x3c00, 0xc000};
  const std::vector<int32_t> positions = {1, 0};
  std::vector<float> out(2);
  ScatterRows({.dim = 1, .dtype = store::DType::kFloat16}, BytesOf(rows),
              positions, out.data());
  EXPECT_THAT(out, ElementsAre(-2, 1));
}

TEST(ScatterRowsTest, NoRowsTouchNothing) {
  ScatterRows({.dim = 2}, nullptr, {}, nullptr);
  ScatterSlots({.dim = 2}, nullptr, {}, {}, nullptr);
}

TEST(ScatterSlotsTest, RowsComeFromTheirSlots) {
  std::vector<float> rows(24);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  // More than are asked for ahead.
  std::vector<int64_t> slots;
  std::vector<int32_t> positions;
  for (int i = 0; i < 10; ++i) {
    slots.push_back(i + 1);
    positions.push_back(9 - i);
  }
  std::vector<float> out(20);
  ScatterSlots({.dim = 2}, BytesOf(rows), slots, positions, out.data());
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(out[2 * i], rows[2 * (10 - i)]);
    EXPECT_EQ(out[2 * i + 1], rows[2 * (10 - i) + 1]);
  }
}

}  // namespace
}  // namespace hearth::strategy
