#include "engine/model/cpu/product_operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace hearth::model {
namespace {

constexpr int64_t kStride = 75;

// Values of many magnitudes, including ties, infinities and NaN.
std::vector<float> Values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 7;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = std::bit_cast<float>(state);
    if (state % 5 == 0) value = std::bit_cast<float>(state & 0xFFFF8000u);
  }
  values[3] = std::numeric_limits<float>::infinity();
  values[11] = std::numeric_limits<float>::max();
  values[12] = std::bit_cast<float>(0x7F800001u);
  return values;
}

float Widened(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

// The nearest bfloat16, found by trying its neighbors; ties to even.
Bfloat16Bits Nearest(float value) {
  const auto lower =
      static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  if (std::isinf(value)) return lower;
  const auto upper = static_cast<uint16_t>(lower + 1);
  // Values above the largest finite one count as the next power of two.
  const auto double_of = [](uint16_t bits) {
    const double value = Widened(bits);
    return std::isinf(value) ? std::copysign(0x1p128, value) : value;
  };
  const double below = std::abs(double{value} - double_of(lower));
  const double above = std::abs(double_of(upper) - double{value});
  if (below != above) return below < above ? lower : upper;
  return lower % 2 == 0 ? lower : upper;
}

void ExpectRounded(float value, Bfloat16Bits bits) {
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(Widened(bits)));
  } else {
    EXPECT_EQ(bits, Nearest(value)) << value;
  }
}

// Calls `function` with each instruction set enabled in turn.
template <typename F>
void ForTargets(const F& function) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    function();
  }
  hwy::SetSupportedTargetsForTest(0);
}

MatrixBlock<float> Block(const std::vector<float>& values, int64_t rows,
                         int64_t columns) {
  return {.data = values.data(),
          .rows = rows,
          .columns = columns,
          .stride = kStride};
}

TEST(ProductOperandsTest, RowsAreRoundedToTheNearest) {
  const std::vector<float> values = Values(40 * kStride);
  ForTargets([&] {
    for (const int64_t columns : {1, 15, 16, 17, 70}) {
      constexpr int64_t kToStride = 72;
      std::vector<Bfloat16Bits> rounded(40 * kToStride, 0xABCD);
      RoundRows(Block(values, 40, columns), kToStride, rounded.data());
      for (int64_t row = 0; row < 40; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          ExpectRounded(values[row * kStride + column],
                        rounded[row * kToStride + column]);
        }
        EXPECT_EQ(rounded[row * kToStride + columns], 0xABCD);
      }
    }
  });
}

TEST(ProductOperandsTest, RowsArePaired) {
  const std::vector<float> values = Values(40 * kStride);
  ForTargets([&] {
    for (const int64_t rows : {1, 2, 7, 40}) {
      for (const int64_t columns : {1, 16, 37}) {
        const int64_t pairs = (rows + 1) / 2;
        std::vector<Bfloat16Pair> paired(pairs * columns + 1, 7);
        PairRows(Block(values, rows, columns), paired.data());
        for (int64_t row = 0; row < 2 * pairs; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            const uint32_t pair = paired[row / 2 * columns + column];
            const auto bits = static_cast<Bfloat16Bits>(
                row % 2 == 0 ? pair & 0xFFFF : pair >> 16);
            if (row < rows) {
              ExpectRounded(values[row * kStride + column], bits);
            } else {
              EXPECT_EQ(bits, 0);
            }
          }
        }
        EXPECT_EQ(paired.back(), 7u);
      }
    }
  });
}

TEST(ProductOperandsTest, RoundedRowsArePairedAsTheyAre) {
  std::vector<float> values = Values(40 * kStride);
  std::vector<Bfloat16Bits> rounded(values.size());
  RoundRows(Block(values, 40, kStride), kStride, rounded.data());
  ForTargets([&] {
    for (const int64_t rows : {1, 2, 7, 40}) {
      for (const int64_t columns : {1, 16, 37}) {
        std::vector<Bfloat16Pair> wanted((rows + 1) / 2 * columns + 1, 7);
        std::vector<Bfloat16Pair> paired = wanted;
        PairRows(Block(values, rows, columns), wanted.data());
        PairRows(MatrixBlock<Bfloat16Bits>{.data = rounded.data(),
                                           .rows = rows,
                                           .columns = columns,
                                           .stride = kStride},
                 paired.data());
        EXPECT_EQ(paired, wanted);
      }
    }
  });
}

TEST(ProductOperandsTest, PanelsHaveAllColumnsAndZerosBelow) {
  constexpr int64_t kPanel = 32;
  std::vector<float> values(40 * kStride);
  std::iota(values.begin(), values.end(), 1.0f);
  ForTargets([&] {
    for (const int64_t rows : {0, 1, 7, 40}) {
      for (const int64_t columns : {1, 16, 32, 37, 64, 70}) {
        const int64_t padded = rows + 3;
        std::vector<float> wanted;
        for (int64_t first = 0; first < columns; first += kPanel) {
          for (int64_t row = 0; row < padded; ++row) {
            for (int64_t column = first;
                 column < std::min(first + kPanel, columns); ++column) {
              wanted.push_back(row < rows ? values[row * kStride + column] : 0);
            }
          }
        }
        wanted.push_back(7);
        std::vector<float> panels(wanted.size(), 7);
        CopyPanels(Block(values, rows, columns), kPanel, padded, panels.data());
        EXPECT_EQ(panels, wanted) << rows << " x " << columns;
      }
    }
  });
}

TEST(ProductOperandsTest, RowsAreAddedInTheirOrder) {
  std::vector<float> values(40 * kStride);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 1000003) * 0x1p-10f;
  }
  ForTargets([&] {
    for (const int64_t rows : {0, 1, 40}) {
      for (const int64_t columns : {1, 16, 37}) {
        std::vector<float> sums(columns + 1, 0.3f);
        std::vector<float> wanted = sums;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            wanted[column] += values[row * kStride + column];
          }
        }
        AddRows(Block(values, rows, columns), sums.data());
        EXPECT_EQ(sums, wanted);
      }
    }
  });
}

template <typename T>
void ExpectTransposed(const std::vector<T>& values, int64_t rows,
                      int64_t columns) {
  constexpr int64_t kToStride = 50;
  std::vector<T> transposed(columns * kToStride, T{5});
  TransposeBlock(MatrixBlock<T>{.data = values.data(),
                                .rows = rows,
                                .columns = columns,
                                .stride = kStride},
                 kToStride, transposed.data());
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < kToStride; ++row) {
      const T expected = row < rows ? values[row * kStride + column] : T{5};
      ASSERT_EQ(transposed[column * kToStride + row], expected)
          << rows << " x " << columns << " at " << row << ", " << column;
    }
  }
}

TEST(ProductOperandsTest, BlocksAreTransposed) {
  std::vector<float> floats(49 * kStride);
  std::vector<Bfloat16Pair> pairs(floats.size());
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>(i) + 100;
    pairs[i] = static_cast<uint32_t>(i * 2654435761u);
  }
  ForTargets([&] {
    for (const int64_t rows : {0, 1, 4, 15, 16, 17, 48, 49}) {
      for (const int64_t columns : {1, 3, 4, 5, 16, 70}) {
        ExpectTransposed(floats, rows, columns);
        ExpectTransposed(pairs, rows, columns);
      }
    }
  });
}

}  // namespace
}  // namespace hearth::model
