#include "engine/strategy/diskgnn/layout/packed_layout.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/strategy/packing/batch_code.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

std::vector<std::byte> Encode(const AddressTable& table,
                              const LevelSizes& sizes) {
  std::vector<std::byte> bytes(EncodedTableBytes(table.counts(), sizes));
  EXPECT_EQ(EncodeTable(table, sizes, bytes.data()),
            bytes.data() + bytes.size());
  return bytes;
}

// A table of `count` rows spread over the levels at random.
AddressTable RandomTable(RandomStream& random, int64_t count,
                         const LevelSizes& sizes) {
  AddressTable table;
  for (int32_t position = 0; position < count; ++position) {
    const auto add = [&](LevelAddresses& level, int64_t rows) {
      level.positions.push_back(position);
      level.rows.push_back(
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(rows))));
    };
    switch (random.Below(4)) {
      case 0:
        add(table.gpu, sizes.gpu);
        break;
      case 1:
        add(table.cpu, sizes.cpu);
        break;
      case 2:
        add(table.disk, sizes.disk);
        break;
      default:
        table.packed.push_back(position);
    }
  }
  return table;
}

TEST(AddressTableTest, ComesBackWhateverTheWidths) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (const int64_t count : {0, 1, 2, 255, 256, 257, 70'000}) {
    for (const int64_t rows : {int64_t{1}, int64_t{256}, int64_t{257},
                               int64_t{1} << 33, int64_t{1} << 47}) {
      const LevelSizes sizes = {.gpu = rows, .cpu = 2 * rows, .disk = 3 * rows};
      const AddressTable table = RandomTable(random, count, sizes);
      EXPECT_EQ(table.counts().total(), count);
      const std::vector<std::byte> bytes = Encode(table, sizes);
      AddressTable decoded;
      ASSERT_TRUE(DecodeTable(bytes, table.counts(), sizes, decoded).ok());
      EXPECT_EQ(decoded, table) << count << " of " << rows;
    }
  }
}

TEST(AddressTableTest, TakesAsFewBytesAsItsNumbers) {
  EXPECT_EQ(EncodedTableBytes({}, {}), 0u);
  // Positions below 256 take a byte, the only slot of a level none.
  EXPECT_EQ(EncodedTableBytes({.gpu = 1, .cpu = 2, .disk = 3, .packed = 250},
                              {.gpu = 1, .cpu = 256, .disk = 257}),
            256u + 0 + 2 + 6);
  EXPECT_EQ(EncodedTableBytes({.packed = 257}, {}), 514u);
}

TEST(AddressTableTest, WhatCannotBeIsDataLoss) {
  const LevelSizes sizes = {.gpu = 3, .cpu = 300, .disk = 3};
  AddressTable table;
  table.gpu = {{0, 1}, {0, 2}};
  table.cpu = {{2}, {299}};
  table.packed = {3, 4};
  const std::vector<std::byte> good = Encode(table, sizes);
  AddressTable decoded;
  ASSERT_TRUE(DecodeTable(good, table.counts(), sizes, decoded).ok());
  std::vector<std::byte> bent = good;
  bent[0] = std::byte{5};
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeTable(bent, table.counts(), sizes, decoded)))
      << "a position that the batch does not have";
  bent = good;
  bent[2] = std::byte{3};
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeTable(bent, table.counts(), sizes, decoded)))
      << "a slot that the level does not have";
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeTable(absl::MakeConstSpan(good).first(good.size() - 1),
                  table.counts(), sizes, decoded)));
}

TEST(BytePackingTest, WidthsAreWhatTheLargestNeeds) {
  EXPECT_EQ(PackedWidth(0), 0);
  for (int width = 1; width <= 8; ++width) {
    const uint64_t largest = UINT64_MAX >> (64 - 8 * width);
    EXPECT_EQ(PackedWidth(largest), width);
    if (width < 8) {
      EXPECT_EQ(PackedWidth(largest + 1), width + 1);
    }
  }
  const std::vector<int32_t> values = {1, 256, 3};
  EXPECT_EQ(PackedWidthOf(absl::MakeConstSpan(values)), 2);
  EXPECT_EQ(PackedWidthOf(absl::Span<const int64_t>()), 0);
}

}  // namespace
}  // namespace hearth::strategy
