// Loads libhearth_cuda.so and compares it with plain loops on the CPU. Links
// nothing but the C++ library: carry this binary and the plug-in to a machine
// with a GPU and name the plug-in in HEARTH_CUDA_PLUGIN.

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/plugin_fixture.h"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

TEST_F(PluginTest, OffersItsVersionOnly) {
  EXPECT_EQ(table_->version, HEARTH_CUDA_VERSION);
  EXPECT_EQ(table_->table_bytes, sizeof(HearthCudaTable));
  EXPECT_EQ(get_table_(HEARTH_CUDA_VERSION + 1), nullptr);
  EXPECT_EQ(get_table_(0), nullptr);
}

TEST_F(PluginTest, ShowsNoSymbolsOfTheCudaRuntime) {
  EXPECT_EQ(::dlsym(library_, "cudaMalloc"), nullptr);
}

TEST_F(PluginTest, SaysWhyThereIsNoDevice) {
  int count = -1;
  const int error = table_->device_count(&count);
  if (error == 0 && count > 0) GTEST_SKIP() << "there is a GPU";
  HearthCudaStream* stream = nullptr;
  const int no_stream = table_->stream_create(0, &stream);
  EXPECT_NE(no_stream, 0);
  EXPECT_EQ(stream, nullptr);
  EXPECT_STRNE(table_->error_text(no_stream), "");
}

TEST_F(PluginOnGpuTest, NamesTheDevice) {
  char name[256] = "";
  Check(table_->device_name(0, name, sizeof(name)));
  EXPECT_STRNE(name, "");
  char cut[4] = "";
  Check(table_->device_name(0, cut, sizeof(cut)));
  EXPECT_EQ(std::string(cut), std::string(name).substr(0, 3));
  EXPECT_NE(table_->device_name(1 << 20, name, sizeof(name)), 0);
}

TEST_F(PluginOnGpuTest, CopiesThereAndBack) {
  const std::string text = "to the device and back";
  std::string back(text.size(), ' ');
  std::byte* memory = Allocate(text.size());
  Check(table_->copy(memory, text.data(), text.size(), stream_));
  Check(table_->copy(back.data(), memory, text.size(), stream_));
  Wait();
  EXPECT_EQ(back, text);
}

TEST_F(PluginOnGpuTest, PinnedMemoryIsOnPagesAndCopied) {
  const std::string text = "pinned, to the device and back";
  std::byte* there = AllocatePinned(text.size());
  std::byte* back = AllocatePinned(text.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(there) % 4096, 0u);
  std::memcpy(there, text.data(), text.size());
  std::byte* memory = Allocate(text.size());
  Check(table_->copy(memory, there, text.size(), stream_));
  Check(table_->copy(back, memory, text.size(), stream_));
  Wait();
  EXPECT_EQ(std::memcmp(back, text.data(), text.size()), 0);
}

TEST_F(PluginOnGpuTest, TooLargeAnAllocationHasItsOwnError) {
  void* memory = nullptr;
  EXPECT_EQ(table_->allocate(0, size_t{1} << 50, &memory),
            HEARTH_CUDA_OUT_OF_MEMORY);
}

TEST_F(PluginOnGpuTest, StreamsWaitForEvents) {
  constexpr size_t kBytes = 64 << 20;
  HearthCudaStream* second = nullptr;
  Check(table_->stream_create(0, &second));
  const std::vector<char> source(kBytes, 7);
  std::vector<char> back(kBytes);
  std::byte* first_copy = Allocate(kBytes);
  std::byte* second_copy = Allocate(kBytes);
  Check(table_->copy(first_copy, source.data(), kBytes, stream_));
  Check(table_->event_record(event_, stream_));
  Check(table_->stream_wait_event(second, event_));
  Check(table_->copy(second_copy, first_copy, kBytes, second));
  Check(table_->copy(back.data(), second_copy, kBytes, second));
  Check(table_->event_record(event_, second));
  Check(table_->event_synchronize(event_));
  EXPECT_EQ(back, source);
  Check(table_->stream_destroy(second));
}

int64_t SizeOf(HearthCudaElement element) {
  if (element == HEARTH_CUDA_SCALED_INT8) return 1;
  return element == HEARTH_CUDA_FLOAT32 ? 4 : 2;
}

int64_t RowBytes(HearthCudaElement element, int64_t dim) {
  return dim * SizeOf(element) +
         (element == HEARTH_CUDA_SCALED_INT8 ? kScaleBytes : 0);
}

// Element `column` of a row of `dim` elements.
float Widen(HearthCudaElement element, const std::byte* row, int64_t dim,
            int64_t column) {
  const std::byte* const from = row + column * SizeOf(element);
  if (element == HEARTH_CUDA_SCALED_INT8) {
    float scale = 0;
    std::memcpy(&scale, row + dim, sizeof(scale));
    return WidenInt8(static_cast<int8_t>(*from), scale);
  }
  if (element == HEARTH_CUDA_FLOAT32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return element == HEARTH_CUDA_FLOAT16 ? WidenFloat16(bits)
                                        : WidenBFloat16(bits);
}

// `bytes` of patterns of all kinds.
std::vector<std::byte> Patterns(size_t bytes) {
  std::vector<std::byte> patterns(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    patterns[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  }
  return patterns;
}

// Rows of patterns of all kinds, in `more` bytes more than they take; scales
// are finite, without the upper bit of their exponents.
std::vector<std::byte> PatternRows(HearthCudaElement element, int64_t dim,
                                   int64_t rows, int64_t more = 0) {
  const int64_t row_bytes = RowBytes(element, dim);
  std::vector<std::byte> patterns = Patterns(rows * row_bytes + more);
  if (element != HEARTH_CUDA_SCALED_INT8) return patterns;
  for (int64_t row = 1; row <= rows; ++row) {
    patterns[row * row_bytes - 1] &= std::byte{0xBF};
  }
  return patterns;
}

constexpr HearthCudaElement kElements[] = {
    HEARTH_CUDA_FLOAT32, HEARTH_CUDA_FLOAT16, HEARTH_CUDA_BFLOAT16,
    HEARTH_CUDA_SCALED_INT8};

class PluginGatherTest : public PluginOnGpuTest {
 protected:
  // Gathers `count` of `num_rows` rows from memory `offset` elements after an
  // aligned address; expects the bits of the CPU.
  void ExpectTheCpusBits(HearthCudaElement element, int64_t dim,
                         int64_t num_rows, int64_t count, int64_t offset) {
    const int64_t size = SizeOf(element);
    const std::vector<std::byte> rows = PatternRows(element, dim, num_rows);
    std::vector<int64_t> indices(count);
    for (int64_t i = 0; i < count; ++i) indices[i] = i * i * 7 % num_rows;
    std::vector<float> expected(count * dim);
    for (int64_t i = 0; i < count * dim; ++i) {
      expected[i] =
          Widen(element, &rows[indices[i / dim] * RowBytes(element, dim)], dim,
                i % dim);
    }
    std::byte* device_rows = Allocate(rows.size(), offset * size);
    std::byte* device_indices = Allocate(count * sizeof(int64_t));
    std::byte* device_out = Allocate(count * dim * sizeof(float));
    Check(table_->copy(device_rows, rows.data(), rows.size(), stream_));
    Check(table_->copy(device_indices, indices.data(), count * sizeof(int64_t),
                       stream_));
    const HearthCudaGather gather = {
        .source = device_rows,
        .element = element,
        .dim = dim,
        .indices = reinterpret_cast<const int64_t*>(device_indices),
        .count = count,
        .out = reinterpret_cast<float*>(device_out)};
    Check(table_->gather_rows(&gather, stream_));
    std::vector<float> actual(count * dim);
    Check(table_->copy(actual.data(), device_out, count * dim * sizeof(float),
                       stream_));
    Wait();
    EXPECT_TRUE(actual.empty() ||
                std::memcmp(actual.data(), expected.data(),
                            actual.size() * sizeof(float)) == 0)
        << "element type " << element << ", dim " << dim << ", count " << count
        << ", offset " << offset;
  }
};

TEST_F(PluginGatherTest, GivesTheCpusBitsForEverySize) {
  for (const HearthCudaElement element : kElements) {
    for (const int64_t dim : {0, 1, 8, 31, 32, 33, 128}) {
      for (const int64_t count : {0, 1, 31, 32, 33, 1000}) {
        ExpectTheCpusBits(element, dim, 50, count, 0);
      }
    }
  }
}

TEST_F(PluginGatherTest, GivesTheCpusBitsForUnalignedRows) {
  for (const HearthCudaElement element : kElements) {
    ExpectTheCpusBits(element, 128, 50, 100, 1);
  }
}

TEST_F(PluginGatherTest, GivesTheCpusBitsBeyondOneTurnOfAllBlocks) {
  for (const HearthCudaElement element : kElements) {
    ExpectTheCpusBits(element, 3, 1000, 8 * 65536 + 33, 0);
  }
}

TEST_F(PluginGatherTest, RefusesNonsense) {
  HearthCudaGather gather = {};
  gather.count = -1;
  EXPECT_NE(table_->gather_rows(&gather, stream_), 0);
  gather.count = 1;
  gather.dim = 1;
  gather.element = 4;
  EXPECT_NE(table_->gather_rows(&gather, stream_), 0);
}

class PluginScatterTest : public PluginOnGpuTest {
 protected:
  static constexpr int kParts = HEARTH_CUDA_SCATTER_PARTS;
  static constexpr int64_t kNumRows = 60;

  // Scatters counts[i] rows of each part to every second position, from the
  // last one down. The first part lies in pinned memory; odd parts have slots,
  // and others kNumRows rows at most; device memory begins `offset` elements
  // after an aligned address.
  void ExpectTheCpusBits(HearthCudaElement element, int64_t dim,
                         const std::array<int64_t, kParts>& counts,
                         int64_t offset) {
    int64_t position = -2;
    for (const int64_t count : counts) position += 2 * count;
    const size_t out_size = (position + 2) * dim;
    std::vector<float> expected(out_size, -1);
    HearthCudaScatter scatter = {};
    scatter.element = element;
    scatter.dim = dim;
    scatter.out = ToDevice(expected);
    for (int part = 0; part < kParts; ++part) {
      const auto rows = PatternRows(element, dim, kNumRows, part);
      scatter.parts[part].rows = Place(part, rows, offset * SizeOf(element));
      scatter.parts[part].count = counts[part];
      std::vector<int64_t> slots;
      std::vector<int32_t> positions;
      for (int64_t i = 0; i < counts[part]; ++i, position -= 2) {
        slots.push_back(part % 2 != 0 ? i * i * 7 % kNumRows : i);
        positions.push_back(static_cast<int32_t>(position));
        for (int64_t column = 0; column < dim; ++column) {
          expected[position * dim + column] = Widen(
              element, &rows[slots[i] * RowBytes(element, dim)], dim, column);
        }
      }
      if (part % 2 != 0) scatter.parts[part].slots = ToDevice(slots);
      scatter.parts[part].positions = ToDevice(positions);
    }
    Check(table_->scatter_rows(&scatter, stream_));
    std::vector<float> actual(out_size);
    Check(table_->copy(actual.data(), scatter.out, out_size * sizeof(float),
                       stream_));
    Wait();
    EXPECT_TRUE(actual.empty() ||
                std::memcmp(actual.data(), expected.data(),
                            actual.size() * sizeof(float)) == 0)
        << "element type " << element << ", dim " << dim << ", counts "
        << counts[0] << " " << counts[1] << ", offset " << offset;
  }

 private:
  const std::byte* Place(int part, const std::vector<std::byte>& rows,
                         size_t offset) {
    if (part == 0) {
      std::byte* pinned = AllocatePinned(rows.size());
      std::memcpy(pinned, rows.data(), rows.size());
      return pinned;
    }
    std::byte* memory = Allocate(rows.size(), offset);
    Check(table_->copy(memory, rows.data(), rows.size(), stream_));
    return memory;
  }
};

TEST_F(PluginScatterTest, GivesTheCpusBitsForEverySize) {
  for (const HearthCudaElement element : kElements) {
    for (const int64_t dim : {0, 1, 8, 31, 32, 33, 128}) {
      for (const int64_t count : {0, 1, 31, 32, 33, 60}) {
        ExpectTheCpusBits(element, dim, {count, 7, 0, 60 - count}, 0);
      }
    }
  }
}

TEST_F(PluginScatterTest, GivesTheCpusBitsForUnalignedRows) {
  for (const HearthCudaElement element : kElements) {
    ExpectTheCpusBits(element, 128, {10, 100, 20, 0}, 1);
  }
}

TEST_F(PluginScatterTest, GivesTheCpusBitsBeyondOneTurnOfAllBlocks) {
  for (const HearthCudaElement element : kElements) {
    ExpectTheCpusBits(element, 3, {5, 8 * 65536 + 33, 5, 70}, 0);
  }
}

TEST_F(PluginScatterTest, RefusesNonsense) {
  HearthCudaScatter scatter = {};
  scatter.parts[3].count = -1;
  EXPECT_NE(table_->scatter_rows(&scatter, stream_), 0);
  scatter.parts[3].count = 1;
  scatter.dim = 1;
  scatter.element = 4;
  EXPECT_NE(table_->scatter_rows(&scatter, stream_), 0);
}

}  // namespace
}  // namespace hearth::kernels
