#ifndef HEARTH_KERNELS_CUDA_PLUGIN_FIXTURE_H_
#define HEARTH_KERNELS_CUDA_PLUGIN_FIXTURE_H_

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

/// Fixtures of the plug-in's tests.

namespace hearth::kernels {

inline std::string LibraryPath() {
  const char* path = std::getenv("HEARTH_CUDA_PLUGIN");
  return path != nullptr ? path : "kernels/cuda/libhearth_cuda.so";
}

/// The plug-in, loaded; skipped where it was not built.
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

/// Tests that need a GPU, skipped without one. Errors of single calls fail the
/// test at once.
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
    for (void* memory : pinned_) Check(table_->release_pinned(0, memory));
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

  std::byte* AllocatePinned(size_t bytes) {
    void* memory = nullptr;
    Check(table_->allocate_pinned(0, bytes + 1, &memory));
    pinned_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }

  void Wait() {
    Check(table_->event_record(event_, stream_));
    Check(table_->event_synchronize(event_));
  }

  // Copies `values` to the device. Waits for the copy, so that `values` may be
  // a temporary.
  template <typename T>
  T* ToDevice(const std::vector<T>& values) {
    std::byte* memory = Allocate(values.size() * sizeof(T));
    Check(table_->copy(memory, values.data(), values.size() * sizeof(T),
                       stream_));
    Wait();
    return reinterpret_cast<T*>(memory);
  }

  HearthCudaStream* stream_ = nullptr;
  HearthCudaEvent* event_ = nullptr;
  std::vector<void*> memory_;
  std::vector<void*> pinned_;
};

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_PLUGIN_FIXTURE_H_
