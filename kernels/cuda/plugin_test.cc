// Loads libhearth_cuda.so and compares it with plain loops on the CPU. Links
// nothing but the C++ library: carry this binary and the plug-in to a machine
// with a GPU and name the plug-in in HEARTH_CUDA_PLUGIN.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/widen.h"

namespace hearth::kernels {
namespace {

std::string LibraryPath() {
  const char* path = std::getenv("HEARTH_CUDA_PLUGIN");
  return path != nullptr ? path : "kernels/cuda/libhearth_cuda.so";
}

class PluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(LibraryPath().c_str(), F_OK) != 0) {
      GTEST_SKIP() << "no " << LibraryPath()
                   << ": it is not built without the CUDA toolkit";
    }
    // Never closed: the CUDA runtime does not take that well.
    library_ = ::dlopen(LibraryPath().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    get_table_ = reinterpret_cast<decltype(&hearth_cuda_table)>(
        ::dlsym(library_, HEARTH_CUDA_TABLE_SYMBOL));
    ASSERT_NE(get_table_, nullptr) << ::dlerror();
    table_ = get_table_(HEARTH_CUDA_VERSION);
    ASSERT_NE(table_, nullptr);
  }

  void* library_ = nullptr;
  decltype(&hearth_cuda_table) get_table_ = nullptr;
  const HearthCudaTable* table_ = nullptr;
};

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

// Needs a GPU. Errors of single calls are failures at once.
class PluginOnGpuTest : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    int count = 0;
    const int error = table_->device_count(&count);
    if (error != 0 || count == 0) {
      GTEST_SKIP() << "no GPU here: NOTHING of the CUDA kernels is tested ("
                   << table_->error_text(error) << ")";
    }
    Check(table_->stream_create(0, &stream_));
    Check(table_->event_create(0, &event_));
  }

  void TearDown() override {
    for (void* memory : memory_) Check(table_->release(0, memory));
    if (event_ != nullptr) Check(table_->event_destroy(event_));
    if (stream_ != nullptr) Check(table_->stream_destroy(stream_));
  }

  void Check(int error) { ASSERT_EQ(error, 0) << table_->error_text(error); }

  // Device memory for `bytes`, beginning `offset` bytes after an aligned
  // address.
  std::byte* Allocate(size_t bytes, size_t offset = 0) {
    void* memory = nullptr;
    Check(table_->allocate(0, bytes + offset + 1, &memory));
    memory_.push_back(memory);
    return static_cast<std::byte*>(memory) + offset;
  }

  void Wait() {
    Check(table_->event_record(event_, stream_));
    Check(table_->event_synchronize(event_));
  }

  HearthCudaStream* stream_ = nullptr;
  HearthCudaEvent* event_ = nullptr;
  std::vector<void*> memory_;
};

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

float Widen(HearthCudaElement element, const std::byte* from) {
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

constexpr HearthCudaElement kElements[] = {
    HEARTH_CUDA_FLOAT32, HEARTH_CUDA_FLOAT16, HEARTH_CUDA_BFLOAT16};

class PluginGatherTest : public PluginOnGpuTest {
 protected:
  // Gathers `count` of `num_rows` rows with patterns of all kinds, from memory
  // `offset` elements after an aligned address; expects the bits of the CPU.
  void ExpectTheCpusBits(HearthCudaElement element, int64_t dim,
                         int64_t num_rows, int64_t count, int64_t offset) {
    const int64_t size = element == HEARTH_CUDA_FLOAT32 ? 4 : 2;
    std::vector<std::byte> rows(num_rows * dim * size);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    }
    std::vector<int64_t> indices(count);
    for (int64_t i = 0; i < count; ++i) indices[i] = i * i * 7 % num_rows;
    std::vector<float> expected(count * dim);
    for (int64_t i = 0; i < count * dim; ++i) {
      const int64_t from = indices[i / dim] * dim + i % dim;
      expected[i] = Widen(element, &rows[from * size]);
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
  gather.element = static_cast<HearthCudaElement>(9);
  EXPECT_NE(table_->gather_rows(&gather, stream_), 0);
}

}  // namespace
}  // namespace hearth::kernels
