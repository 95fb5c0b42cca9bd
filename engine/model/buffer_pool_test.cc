#include "engine/model/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::model {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

TEST(BufferPoolTest, BuffersAreAlignedAndWhole) {
  BufferPool pool;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000},
                             BufferPool::kSmallestPooled, 3 * kMebibyte + 7}) {
    void* const buffer = pool.Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 64, 0u);
    std::memset(buffer, 1, bytes);
    pool.Free(buffer);
  }
  pool.Free(nullptr);
}

TEST(BufferPoolTest, LargeBuffersAreReused) {
  BufferPool pool;
  void* const first = pool.Allocate(4 * kMebibyte);
  pool.Free(first);
  EXPECT_GE(pool.idle_bytes(), 4 * kMebibyte);
  void* const second = pool.Allocate(4 * kMebibyte - 5000);
  EXPECT_EQ(second, first);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  pool.Free(second);
}

TEST(BufferPoolTest, SmallBuffersAreNotKept) {
  BufferPool pool;
  pool.Free(pool.Allocate(1000));
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(BufferPoolTest, FarLargerBuffersAreSpared) {
  BufferPool pool;
  pool.Free(pool.Allocate(8 * kMebibyte));
  const size_t idle = pool.idle_bytes();
  void* const small = pool.Allocate(kMebibyte);
  EXPECT_EQ(pool.idle_bytes(), idle);
  pool.Free(small);
}

TEST(BufferPoolTest, KeepsNoMoreThanWasEverInUseAtOnceAndAnEighth) {
  BufferPool pool;
  void* const first = pool.Allocate(8 * kMebibyte);
  void* const second = pool.Allocate(8 * kMebibyte);
  pool.Free(first);
  pool.Free(second);
  const size_t most = pool.idle_bytes();
  // Sizes that none of the idle ones serves.
  for (const size_t mebibytes : {4, 11, 3, 14, 5}) {
    void* const buffer = pool.Allocate(mebibytes * kMebibyte);
    EXPECT_LE(pool.idle_bytes() + mebibytes * kMebibyte, most + most / 8)
        << mebibytes;
    pool.Free(buffer);
  }
}

TEST(BufferPoolTest, MakesRoomByWhatIsIdleLongest) {
  BufferPool pool;
  void* const old = pool.Allocate(8 * kMebibyte);
  void* const young = pool.Allocate(4 * kMebibyte);
  pool.Free(old);
  pool.Trim();
  pool.Free(young);
  pool.Free(pool.Allocate(3 * kMebibyte));
  void* const again = pool.Allocate(4 * kMebibyte);
  EXPECT_EQ(again, young);
  pool.Free(again);
}

TEST(BufferPoolTest, TrimGivesUpWhatIsLongUnused) {
  BufferPool pool;
  pool.Free(pool.Allocate(kMebibyte));
  for (uint64_t i = 0; i < BufferPool::kTrimsKept; ++i) {
    pool.Trim();
    EXPECT_GT(pool.idle_bytes(), 0u);
  }
  pool.Trim();
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(BufferPoolTest, TrimKeepsWhatIsInUseEachStep) {
  BufferPool pool;
  for (uint64_t i = 0; i < 3 * BufferPool::kTrimsKept; ++i) {
    pool.Free(pool.Allocate(kMebibyte));
    pool.Trim();
    EXPECT_GT(pool.idle_bytes(), 0u);
  }
}

TEST(BufferPoolTest, ClearGivesUpAll) {
  BufferPool pool;
  pool.Free(pool.Allocate(kMebibyte));
  pool.Free(pool.Allocate(9 * kMebibyte));
  pool.Clear();
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(BufferPoolTest, ImpossibleSizesThrow) {
  BufferPool pool;
  EXPECT_THROW(pool.Allocate(std::numeric_limits<size_t>::max()),
               std::bad_alloc);
}

TEST(BufferPoolTest, ThreadsNeverShareABuffer) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (uint8_t id = 0; id < 4; ++id) {
    threads.emplace_back([&pool, id] {
      for (size_t i = 0; i < 50; ++i) {
        const size_t bytes = (1 + i % 3) * BufferPool::kSmallestPooled;
        auto* const buffer = static_cast<uint8_t*>(pool.Allocate(bytes));
        std::memset(buffer, id, bytes);
        EXPECT_EQ(buffer[0], id);
        EXPECT_EQ(buffer[bytes - 1], id);
        pool.Free(buffer);
        pool.Trim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hearth::model
