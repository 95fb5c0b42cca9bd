#include "engine/cache/assemble.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/thread_team.h"
#include "engine/cache/row_memory.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

// A matrix in memory that begins `offset` bytes after an aligned address.
class FakeFeatures final : public store::LoadedFeatures {
 public:
  FakeFeatures(store::DType dtype, int64_t dim,
               const std::vector<uint32_t>& bits, int64_t offset = 0)
      : dtype_(dtype), dim_(dim), offset_(offset) {
    const int64_t size = store::SizeOf(dtype);
    bytes_.resize(offset + bits.size() * size);
    for (size_t i = 0; i < bits.size(); ++i) {
      // Little-endian: the low bytes are the element.
      std::memcpy(&bytes_[offset + i * size], &bits[i], size);
    }
    num_rows_ = static_cast<int64_t>(bits.size()) / dim;
  }

  const std::byte* rows() const override { return bytes_.data() + offset_; }
  int64_t num_rows() const override { return num_rows_; }
  int64_t dim() const override { return dim_; }
  store::DType dtype() const override { return dtype_; }
  absl::Status status() const override { return absl::OkStatus(); }
  std::string PlaceOf(int64_t /*row*/) const override { return ""; }

 private:
  const store::DType dtype_;
  const int64_t dim_;
  const int64_t offset_;
  int64_t num_rows_;
  std::vector<std::byte> bytes_;
};

std::vector<float> Assemble(const FakeFeatures& features,
                            const std::vector<store::NodeId>& nodes) {
  std::vector<float> out(nodes.size() * features.dim(), -1);
  AssembleRows(features, nodes, out.data());
  return out;
}

// 1, 2, 3, -0.5, 65504 and 1024 in each type.
const std::vector<float> kValues = {1, 2, 3, -0.5, 65504, 1024};
const std::vector<uint32_t> kFloat32 = {0x3F800000, 0x40000000, 0x40400000,
                                        0xBF000000, 0x477FE000, 0x44800000};
const std::vector<uint32_t> kFloat16 = {0x3C00, 0x4000, 0x4200,
                                        0xB800, 0x7BFF, 0x6400};

TEST(AssembleRowsTest, Float32InTheOrderOfTheNodes) {
  const FakeFeatures features(store::DType::kFloat32, 2, kFloat32);
  EXPECT_EQ(Assemble(features, {2, 0, 2}),
            (std::vector<float>{65504, 1024, 1, 2, 65504, 1024}));
}

TEST(AssembleRowsTest, Float16IsWidened) {
  const FakeFeatures features(store::DType::kFloat16, 2, kFloat16);
  EXPECT_EQ(Assemble(features, {0, 1, 2}), kValues);
}

TEST(AssembleRowsTest, BFloat16IsWidened) {
  const FakeFeatures features(store::DType::kBFloat16, 3,
                              {0x3F80, 0x4000, 0xBF00, 0x4480, 0, 0x8000});
  EXPECT_EQ(Assemble(features, {1, 0}),
            (std::vector<float>{1024, 0, -0.0f, 1, 2, -0.5}));
}

TEST(AssembleRowsTest, RowsMayBeginAnywhere) {
  for (int64_t offset = 1; offset < 8; ++offset) {
    EXPECT_EQ(Assemble({store::DType::kFloat32, 3, kFloat32, offset}, {0, 1}),
              kValues);
    EXPECT_EQ(Assemble({store::DType::kFloat16, 3, kFloat16, offset}, {0, 1}),
              kValues);
  }
}

TEST(AssembleRowsTest, FromSlots) {
  auto arena = *SlotArena::Make(4, 4);
  for (int64_t slot = 0; slot < 4; ++slot) {
    const std::vector<uint16_t> halves = {static_cast<uint16_t>(kFloat16[slot]),
                                          0x3C00};
    std::memcpy(arena.row(slot), halves.data(), 4);
  }
  std::vector<float> out(6);
  AssembleRows(
      StoredRows{
          .data = arena.rows(), .dtype = store::DType::kFloat16, .dim = 2},
      {3, 0, 3}, out.data());
  EXPECT_EQ(out, (std::vector<float>{-0.5, 1, 1, 1, -0.5, 1}));
}

// Several parts for a team, the last one short.
TEST(ScatterRowsTest, ATeamPutsRowsWhereOneThreadDoes) {
  constexpr int64_t kRows = 3 * kRowsPerPart + 5;
  std::vector<uint16_t> halves(2 * kRows);
  std::vector<int64_t> slots(kRows);
  std::vector<int32_t> positions(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    halves[2 * i] = static_cast<uint16_t>(i % 0x7C00);
    halves[2 * i + 1] = static_cast<uint16_t>(i % 0x6FFF);
    slots[i] = (i * 7) % kRows;
    positions[i] = static_cast<int32_t>(kRows - 1 - i);
  }
  const StoredRows rows = {
      .data = reinterpret_cast<const std::byte*>(halves.data()),
      .dtype = store::DType::kFloat16,
      .dim = 2};
  std::vector<float> expected(2 * kRows);
  std::vector<float> out(2 * kRows);
  for (const int threads : {1, 3}) {
    const auto team = *ThreadTeam::Create(threads);
    ScatterRows(rows, slots, positions, expected.data());
    ScatterRows(*team, rows, slots, positions, out.data());
    EXPECT_EQ(out, expected);
    ScatterRows(rows, positions, expected.data());
    EXPECT_NE(out, expected);
    ScatterRows(*team, rows, positions, out.data());
    EXPECT_EQ(out, expected);
  }
}

TEST(AssembleRowsTest, OfNoNodes) {
  EXPECT_TRUE(Assemble({store::DType::kFloat32, 2, kFloat32}, {}).empty());
}

StoredRows Float16Rows() {
  static const std::vector<uint16_t> halves(kFloat16.begin(), kFloat16.end());
  return {.data = reinterpret_cast<const std::byte*>(halves.data()),
          .dtype = store::DType::kFloat16,
          .dim = 2};
}

TEST(ScatterRowsTest, RowsInTheirOrderGoToTheirPositions) {
  std::vector<float> out(8, -1);
  ScatterRows(Float16Rows(), {3, 0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{3, -0.5, -1, -1, -1, -1, 1, 2}));
}

TEST(ScatterRowsTest, RowsOfSlotsGoToTheirPositions) {
  std::vector<float> out(6, -1);
  ScatterRows(Float16Rows(), {2, 0}, {0, 1}, out.data());
  EXPECT_EQ(out, (std::vector<float>{65504, 1024, 1, 2, -1, -1}));
}

TEST(ScatterRowsTest, NoRowsTouchNothing) {
  float out = -1;
  ScatterRows(Float16Rows(), {}, &out);
  ScatterRows(Float16Rows(), {}, {}, &out);
  EXPECT_EQ(out, -1);
}

}  // namespace
}  // namespace hearth::cache
