#include "engine/model/runtime/buffer_pool.h"

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

TEST(BufferPoolTest, BuffersLieInMemoryOfFreedOnes) {
  BufferPool pool;
  void* const first = pool.Allocate(4 * kMebibyte);
  void* const second = pool.Allocate(4 * kMebibyte);
  pool.Free(first);
  pool.Free(second);
  EXPECT_EQ(pool.resident_bytes(), 8 * kMebibyte);
  // A buffer as large as both, then smaller ones in its place.
  void* const large = pool.Allocate(8 * kMebibyte);
  EXPECT_EQ(large, first);
  pool.Free(large);
  std::vector<void*> small;
  for (int i = 0; i < 16; ++i) small.push_back(pool.Allocate(kMebibyte / 2));
  EXPECT_EQ(pool.resident_bytes(), 8 * kMebibyte);
  for (void* const buffer : small) pool.Free(buffer);
}

TEST(BufferPoolTest, TheSmallestGapThatHoldsABufferTakesIt) {
  BufferPool pool;
  std::vector<void*> buffers;
  for (const size_t mebibytes : {8, 1, 3, 1, 4, 1}) {
    buffers.push_back(pool.Allocate(mebibytes * kMebibyte));
  }
  for (const size_t i : {0, 2, 4}) pool.Free(buffers[i]);
  void* const small = pool.Allocate(3 * kMebibyte - 64);
  EXPECT_EQ(small, buffers[2]);
  void* const large = pool.Allocate(5 * kMebibyte);
  EXPECT_EQ(large, buffers[0]);
  for (void* const buffer : {small, large, buffers[1], buffers[3]}) {
    pool.Free(buffer);
  }
  pool.Free(buffers[5]);
}

TEST(BufferPoolTest, SmallBuffersAreNotKept) {
  BufferPool pool;
  pool.Free(pool.Allocate(1000));
  EXPECT_EQ(pool.resident_bytes(), 0u);
}

TEST(BufferPoolTest, KeepsNoMoreThanAnEighthMoreThanWasEverInUseAtOnce) {
  BufferPool pool;
  void* const first = pool.Allocate(16 * kMebibyte);
  void* const second = pool.Allocate(2 * kMebibyte);
  pool.Free(first);
  // The small buffer does not fit behind the large one into the first one's
  // gap.
  for (const size_t mebibytes : {10, 7, 12, 15, 9}) {
    void* const large = pool.Allocate(mebibytes * kMebibyte);
    void* const small = pool.Allocate((17 - mebibytes) * kMebibyte);
    std::memset(large, 1, mebibytes * kMebibyte);
    EXPECT_LE(pool.resident_bytes(), 24 * kMebibyte) << mebibytes;
    pool.Free(large);
    pool.Free(small);
  }
  pool.Free(second);
}

// Memory that was given up is mapped again, cleared, when it is used.
TEST(BufferPoolTest, TrimGivesUpWhatIsLongUnused) {
  BufferPool pool;
  void* const buffer = pool.Allocate(4 * kMebibyte);
  std::memset(buffer, 1, 4 * kMebibyte);
  pool.Free(buffer);
  for (uint64_t i = 0; i < BufferPool::kTrimsKept; ++i) {
    pool.Trim();
    EXPECT_EQ(pool.resident_bytes(), 4 * kMebibyte);
  }
  pool.Trim();
  EXPECT_EQ(pool.resident_bytes(), 0u);
  void* const again = pool.Allocate(4 * kMebibyte);
  EXPECT_EQ(again, buffer);
  EXPECT_EQ(*static_cast<uint8_t*>(again), 0);
  pool.Free(again);
}

TEST(BufferPoolTest, TrimKeepsWhatIsInUseEachStep) {
  BufferPool pool;
  for (uint64_t i = 0; i < 3 * BufferPool::kTrimsKept; ++i) {
    pool.Free(pool.Allocate(kMebibyte));
    pool.Trim();
    EXPECT_GT(pool.resident_bytes(), 0u);
  }
}

TEST(BufferPoolTest, ClearGivesUpAllThatNoBufferLiesIn) {
  BufferPool pool;
  void* const kept = pool.Allocate(kMebibyte);
  std::memset(kept, 7, kMebibyte);
  pool.Free(pool.Allocate(9 * kMebibyte));
  pool.Clear();
  EXPECT_EQ(pool.resident_bytes(), 2 * kMebibyte);
  EXPECT_EQ(static_cast<uint8_t*>(kept)[kMebibyte - 1], 7);
  pool.Free(kept);
  pool.Clear();
  EXPECT_EQ(pool.resident_bytes(), 0u);
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
        const size_t bytes = (1 + i % 3) * BufferPool::kSmallestPooled + i;
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
