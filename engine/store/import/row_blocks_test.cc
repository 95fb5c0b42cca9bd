#include "engine/store/import/row_blocks.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/faulty_file_system.h"
#include "engine/store/numpy_folder.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Matrix {
  const char* descr;
  int64_t item_bytes;
  int64_t rows;
  int64_t columns;
  bool fortran_order;
  /// Blocks within 1 MiB.
  int64_t blocks;
};

class RowBlocksTest : public testing::TestWithParam<Matrix> {};

TEST_P(RowBlocksTest, GiveAllRowsInOrder) {
  const Matrix& matrix = GetParam();
  const int64_t row_bytes = matrix.columns * matrix.item_bytes;
  std::string expected(matrix.rows * row_bytes, '\0');
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  std::string stored = expected;
  if (matrix.fortran_order) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int64_t column = 0; column < matrix.columns; ++column) {
        std::memcpy(
            stored.data() + (column * matrix.rows + row) * matrix.item_bytes,
            expected.data() + row * row_bytes + column * matrix.item_bytes,
            matrix.item_bytes);
      }
    }
  }
  NumpyFolder folder;
  folder.Write("m.npy", {.descr = matrix.descr,
                         .shape = "(" + std::to_string(matrix.rows) + ", " +
                                  std::to_string(matrix.columns) + ")",
                         .data = stored,
                         .fortran_order = matrix.fortran_order});
  io::FileSystem& files = io::FileSystem::Posix();
  const auto reader = *ArrayReader::OpenNpy(files, folder.Path("m.npy"));
  const ImportProgress progress;
  ImportContext context(files, kMiB, "/nowhere", progress, {});
  std::string got;
  int64_t next_row = 0, blocks = 0;
  ASSERT_TRUE(ForEachRowBlock(context, *reader, [&](const RowBlock& block) {
                EXPECT_EQ(block.first_row, next_row);
                EXPECT_LE(block.bytes.size(), kMiB / 8);
                next_row += block.num_rows;
                ++blocks;
                got.append(reinterpret_cast<const char*>(block.bytes.data()),
                           block.bytes.size());
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(next_row, matrix.rows);
  EXPECT_TRUE(got == expected);
  EXPECT_EQ(blocks, matrix.blocks);
}

INSTANTIATE_TEST_SUITE_P(
    Matrices, RowBlocksTest,
    testing::Values(Matrix{"<f4", 4, 1, 1, false, 1},
                    Matrix{"<f4", 4, 1, 1, true, 1},
                    Matrix{"<f2", 2, 7, 3, true, 1},
                    Matrix{"<f8", 8, 3, 7, true, 1},
                    // 128 KiB hold 1,024 rows of 32 float32.
                    Matrix{"<f4", 4, 3073, 32, false, 4},
                    Matrix{"<f4", 4, 3073, 32, true, 4},
                    Matrix{"<f2", 2, 4096, 32, true, 2},
                    Matrix{"<f8", 8, 1000, 33, true, 3},
                    // A row is a whole block.
                    Matrix{"<f4", 4, 3, 32768, true, 3}));

TEST(FindNonFiniteTest, FindsTheFirstOfEveryWidth) {
  using Limits = std::numeric_limits<double>;
  for (const double bad :
       {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (const size_t position : {0u, 1u, 7u, 63u, 99u}) {
      std::vector<double> wide(100, 1.5);
      wide[position] = bad;
      wide[99] = bad;
      std::vector<float> narrow(wide.begin(), wide.end());
      EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                                  reinterpret_cast<std::byte*>(wide.data()),
                                  wide.size() * 8),
                              {ElementType::Kind::kFloat, 8}),
                static_cast<int64_t>(position));
      EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                                  reinterpret_cast<std::byte*>(narrow.data()),
                                  narrow.size() * 4),
                              {ElementType::Kind::kFloat, 4}),
                static_cast<int64_t>(position));
    }
  }
}

TEST(FindNonFiniteTest, ExtremesAreFinite) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {0.0f, -0.0f, Limits::max(), Limits::lowest(),
                               Limits::denorm_min()};
  EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                              reinterpret_cast<std::byte*>(values.data()), 20),
                          {ElementType::Kind::kFloat, 4}),
            -1);
  std::vector<uint16_t> halves = {0x7BFF, 0xFBFF, 0x0001, 0x8000};
  EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                              reinterpret_cast<std::byte*>(halves.data()), 8),
                          {ElementType::Kind::kFloat, 2}),
            -1);
  EXPECT_EQ(FindNonFinite({}, {ElementType::Kind::kFloat, 4}), -1);
  // As bfloat16 the same bits may be infinite, and others not.
  const std::vector<uint16_t> brains = {0x7BFF, 0x7F7F, 0x7C00, 0xFF80};
  EXPECT_EQ(
      FindNonFinite(absl::MakeConstSpan(
                        reinterpret_cast<const std::byte*>(brains.data()), 8),
                    {ElementType::Kind::kBFloat, 2}),
      3);
}

}  // namespace
}  // namespace hearth::store
