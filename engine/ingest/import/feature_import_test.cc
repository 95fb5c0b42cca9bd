#include "engine/ingest/import/feature_import.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/store/npy.h"
#include "engine/store/testing/numpy_folder.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Matrix {
  const char* descr;
  int64_t item_bytes;
  int64_t rows;
  int64_t columns;
  bool fortran_order;
  /// Number of blocks within 1 MiB.
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
  store::NumpyFolder folder;
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
                EXPECT_LE(block.bytes.size(), kMiB / 16);
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
                    // 64 KiB hold 512 rows of 32 float32.
                    Matrix{"<f4", 4, 1537, 32, false, 4},
                    Matrix{"<f4", 4, 1537, 32, true, 4},
                    Matrix{"<f2", 2, 2048, 32, true, 2},
                    // 248 rows fit; a number of rows that fills whole pages
                    // does not.
                    Matrix{"<f8", 8, 500, 33, true, 3},
                    // 372 rows fit; 256 of them fill 11 pages.
                    Matrix{"<f2", 2, 1000, 88, false, 4},
                    // A row is a whole block.
                    Matrix{"<f4", 4, 3, 16384, false, 3},
                    Matrix{"<f4", 4, 3, 16384, true, 3}));

/// A matrix of two columns of float64; row i holds i and -i.
class ConvertedBlocksTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 20'000;

  ConvertedBlocksTest() {
    std::vector<double> values;
    for (int64_t i = 0; i < kRows; ++i) {
      values.push_back(static_cast<double>(i));
      values.push_back(static_cast<double>(-i));
    }
    folder_.Write("m.npy", {.descr = "<f8",
                            .shape = "(" + std::to_string(kRows) + ", 2)",
                            .data = store::Raw(values)});
    matrix_ = *ArrayReader::OpenNpy(files_, folder_.Path("m.npy"));
  }

  /// Drops the second column. Checks the arguments of `convert`.
  static absl::StatusOr<uint64_t> KeepFirst(const RowBlock& rows,
                                            absl::Span<std::byte> to) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(to.data()) % 4096, 0u);
    EXPECT_GE(to.size(), rows.bytes.size());
    for (int64_t i = 0; i < rows.num_rows; ++i) {
      std::memcpy(to.data() + i * 8, rows.bytes.data() + i * 16, 8);
    }
    return static_cast<uint64_t>(rows.num_rows) * 8;
  }

  absl::Status Run(const ConvertRows& convert, VisitRows visit) {
    ImportContext context(files_, kMiB, "/nowhere", nullptr, stop_.get_token());
    return ForEachConvertedBlock(context, *matrix_, {4, convert}, visit);
  }

  store::NumpyFolder folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::unique_ptr<ArrayReader> matrix_;
  std::stop_source stop_;
};

TEST_F(ConvertedBlocksTest, AreVisitedInOrderInTheirOwnMemory) {
  int64_t next_row = 0;
  const absl::Status status = Run(KeepFirst, [&](const RowBlock& rows) {
    EXPECT_EQ(rows.first_row, next_row);
    EXPECT_EQ(rows.bytes.size(), static_cast<uint64_t>(rows.num_rows) * 8);
    for (int64_t i = 0; i < rows.num_rows; ++i) {
      double value;
      std::memcpy(&value, rows.bytes.data() + i * 8, 8);
      EXPECT_EQ(value, static_cast<double>(next_row++));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(next_row, kRows);
}

TEST_F(ConvertedBlocksTest, ErrorsOfEveryStageEndAll) {
  const auto visit_well = [](const RowBlock&) { return absl::OkStatus(); };
  int64_t converted = 0;
  const auto convert_badly =
      [&](const RowBlock& rows,
          absl::Span<std::byte> to) -> absl::StatusOr<uint64_t> {
    if (++converted == 3) return absl::InvalidArgumentError("conversion");
    return KeepFirst(rows, to);
  };
  EXPECT_EQ(Run(convert_badly, visit_well),
            absl::InvalidArgumentError("conversion"));
  EXPECT_EQ(converted, 3);
  int64_t visited = 0;
  EXPECT_EQ(Run(KeepFirst,
                [&](const RowBlock&) {
                  return ++visited == 2 ? absl::AbortedError("visit")
                                        : absl::OkStatus();
                }),
            absl::AbortedError("visit"));
  EXPECT_EQ(visited, 2);
}

TEST_F(ConvertedBlocksTest, EveryFailedReadIsTold) {
  bool hit = true;
  int64_t nth = 1;
  for (; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status =
        Run(KeepFirst, [](const RowBlock&) { return absl::OkStatus(); });
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsUnavailable(status), hit) << status;
  }
  // The file is opened and examined (two operations); then its five blocks are
  // read.
  EXPECT_EQ(nth - 2, 2 + 5);
}

TEST_F(ConvertedBlocksTest, StopsOnRequest) {
  int64_t visited = 0;
  const absl::Status status = Run(KeepFirst, [&](const RowBlock&) {
    ++visited;
    stop_.request_stop();
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(visited, 1);
}

TEST_F(ConvertedBlocksTest, AFileThatBecameAnotherIsRefused) {
  folder_.Write("m.npy",
                {.descr = "<f8", .shape = "(1, 1)", .data = "12345678"});
  const absl::Status status =
      Run(KeepFirst, [](const RowBlock&) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(ConvertedBlocksTest, ARowThatDoesNotFitIsRefusedWithTheNumbers) {
  folder_.Write("m.npy", {.descr = "<f8",
                          .shape = "(2, 8193)",
                          .data = std::string(2 * 8193 * 8, '\0')});
  matrix_ = *ArrayReader::OpenNpy(files_, folder_.Path("m.npy"));
  const absl::Status status =
      Run(KeepFirst, [](const RowBlock&) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find("leaves 64.0 KiB"), absl::string_view::npos)
      << status;
}

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
                              {store::ElementType::Kind::kFloat, 8}),
                static_cast<int64_t>(position));
      EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                                  reinterpret_cast<std::byte*>(narrow.data()),
                                  narrow.size() * 4),
                              {store::ElementType::Kind::kFloat, 4}),
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
                          {store::ElementType::Kind::kFloat, 4}),
            -1);
  std::vector<uint16_t> halves = {0x7BFF, 0xFBFF, 0x0001, 0x8000};
  EXPECT_EQ(FindNonFinite(absl::MakeConstSpan(
                              reinterpret_cast<std::byte*>(halves.data()), 8),
                          {store::ElementType::Kind::kFloat, 2}),
            -1);
  EXPECT_EQ(FindNonFinite({}, {store::ElementType::Kind::kFloat, 4}), -1);
  // Other bit patterns are infinite as bfloat16 than as float16.
  const std::vector<uint16_t> brains = {0x7BFF, 0x7F7F, 0x7C00, 0xFF80};
  EXPECT_EQ(
      FindNonFinite(absl::MakeConstSpan(
                        reinterpret_cast<const std::byte*>(brains.data()), 8),
                    {store::ElementType::Kind::kBFloat, 2}),
      3);
}

}  // namespace
}  // namespace hearth::ingest
