// Runs the GPU kernels that move rows on the CPU, so that they are tested
// without a GPU; plugin_test runs them on one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/copy_rows.h"
#include "kernels/cuda/rows.cu"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

constexpr int64_t kNumRows = 60;

struct Case {
  HearthCudaElement element;
  int64_t dim;
  // Elements from an aligned address to the first row.
  int64_t offset;
};

int64_t SizeOf(HearthCudaElement element) {
  if (element == HEARTH_CUDA_SCALED_INT8) return 1;
  return element == HEARTH_CUDA_FLOAT32 ? 4 : 2;
}

ElementType TypeOf(HearthCudaElement element) {
  constexpr ElementType kTypes[] = {
      ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16,
      ElementType::kScaledInt8};
  return kTypes[element];
}

// An array that begins at an aligned address.
template <typename T>
class Aligned {
 public:
  explicit Aligned(size_t size) : size_(size), values_(size + 16 / sizeof(T)) {}

  T* data() {
    const auto address = reinterpret_cast<uintptr_t>(values_.data());
    return reinterpret_cast<T*>((address + 15) / 16 * 16);
  }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  const size_t size_;
  std::vector<T> values_;
};

class EmulationTest : public ::testing::Test {
 protected:
  // Patterns of all kinds, others for each call.
  const std::byte* MakeRows(const Case& c) {
    const bool scaled = c.element == HEARTH_CUDA_SCALED_INT8;
    const int64_t row_bytes =
        c.dim * SizeOf(c.element) + (scaled ? kScaleBytes : 0);
    const int64_t bytes = kNumRows * row_bytes;
    const int64_t offset = c.offset * SizeOf(c.element);
    rows_.emplace_back(static_cast<size_t>(offset + bytes));
    std::byte* const rows = rows_.back().data() + offset;
    for (int64_t i = 0; i < bytes; ++i) {
      rows[i] = static_cast<std::byte>(
          (i * 2654435761 + 77 * std::ssize(rows_)) >> 13);
    }
    // Scales are finite: without an upper exponent bit.
    for (int64_t i = row_bytes; scaled && i <= bytes; i += row_bytes) {
      rows[i - 1] &= std::byte{0xBF};
    }
    return rows;
  }

  static void ExpectTheSameBits(Aligned<float>& actual,
                                Aligned<float>& expected, const Case& c) {
    EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.bytes()), 0)
        << "element type " << c.element << ", dim " << c.dim << ", offset "
        << c.offset;
  }

  void ExpectTheCpusGather(const Case& c, int64_t count) {
    const std::byte* const rows = MakeRows(c);
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count; ++i) indices.push_back(i * i * 7 % kNumRows);
    const auto size = static_cast<size_t>(count * c.dim);
    Aligned<float> actual(size);
    Aligned<float> expected(size);
    GatherRows({rows, TypeOf(c.element), c.dim}, indices.data(), count,
               expected.data());
    EXPECT_EQ(LaunchGather({.source = rows,
                            .element = c.element,
                            .dim = c.dim,
                            .indices = indices.data(),
                            .count = count,
                            .out = actual.data()},
                           nullptr),
              cudaSuccess);
    ExpectTheSameBits(actual, expected, c);
  }

  // counts[i] rows of each part to every second position, from the last one
  // down; odd parts have slots, others kNumRows rows at most.
  void ExpectTheCpusScatter(const Case& c,
                            const std::array<int64_t, 4>& counts) {
    int64_t position = 2 * (counts[0] + counts[1] + counts[2] + counts[3]);
    const auto size = static_cast<size_t>(position * c.dim);
    Aligned<float> actual(size);
    Aligned<float> expected(size);
    // Elements that no position names must keep their values.
    std::fill_n(actual.data(), size, -1.0f);
    std::fill_n(expected.data(), size, -1.0f);
    std::array<std::vector<int64_t>, 4> slots;
    std::array<std::vector<int32_t>, 4> positions;
    HearthCudaScatter scatter = {};
    scatter.element = c.element;
    scatter.dim = c.dim;
    scatter.out = actual.data();
    for (size_t part = 0; part < counts.size(); ++part) {
      for (int64_t i = 0; i < counts[part]; ++i) {
        slots[part].push_back(i * i * 7 % kNumRows);
        positions[part].push_back(static_cast<int32_t>(position -= 2));
      }
      scatter.parts[part] = {
          .rows = MakeRows(c),
          .slots = part % 2 != 0 ? slots[part].data() : nullptr,
          .positions = positions[part].data(),
          .count = counts[part]};
      const HearthCudaScatterPart& made = scatter.parts[part];
      ScatterRows(
          {static_cast<const std::byte*>(made.rows), TypeOf(c.element), c.dim},
          made.slots, made.positions, made.count, expected.data());
    }
    EXPECT_EQ(LaunchScatter(scatter, nullptr), cudaSuccess);
    ExpectTheSameBits(actual, expected, c);
  }

  static std::vector<Case> Cases() {
    std::vector<Case> cases;
    for (const auto element : {HEARTH_CUDA_FLOAT32, HEARTH_CUDA_FLOAT16,
                               HEARTH_CUDA_BFLOAT16, HEARTH_CUDA_SCALED_INT8}) {
      for (const int64_t dim : {0, 1, 8, 31, 32, 33, 128, 130}) {
        for (const int64_t offset : {0, 1}) {
          cases.push_back({element, dim, offset});
        }
      }
    }
    return cases;
  }

 private:
  std::vector<Aligned<std::byte>> rows_;
};

TEST_F(EmulationTest, AGatherIsTheCpus) {
  for (const Case& c : Cases()) {
    for (const int64_t count : {0, 1, 31, 32, 33, 300}) {
      ExpectTheCpusGather(c, count);
    }
  }
}

TEST_F(EmulationTest, AScatterIsTheCpus) {
  for (const Case& c : Cases()) {
    for (const int64_t count : {0, 1, 31, 32, 33, 60}) {
      ExpectTheCpusScatter(c, {count, 7, 0, 60 - count});
    }
    ExpectTheCpusScatter(c, {3, 300, 60, 0});
  }
}

TEST_F(EmulationTest, BlocksTakeTurns) {
  constexpr int64_t kMoreThanATurn = 8 * 65536 + 33;
  for (const Case& c :
       {Case{HEARTH_CUDA_FLOAT32, 1, 0}, Case{HEARTH_CUDA_BFLOAT16, 3, 0}}) {
    ExpectTheCpusGather(c, kMoreThanATurn);
    ExpectTheCpusScatter(c, {5, kMoreThanATurn, 5, 70});
  }
}

TEST_F(EmulationTest, NonsenseIsRefused) {
  HearthCudaGather gather = {};
  gather.count = -1;
  EXPECT_EQ(LaunchGather(gather, nullptr), cudaErrorInvalidValue);
  HearthCudaScatter scatter = {};
  scatter.parts[3].count = -1;
  EXPECT_EQ(LaunchScatter(scatter, nullptr), cudaErrorInvalidValue);
  scatter.parts[3].count = 1;
  scatter.dim = -1;
  EXPECT_EQ(LaunchScatter(scatter, nullptr), cudaErrorInvalidValue);
  scatter.dim = 1;
  scatter.element = 4;
  EXPECT_EQ(LaunchScatter(scatter, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hearth::kernels
