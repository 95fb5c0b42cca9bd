#include "engine/strategy/buffer_pool.h"

#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(BufferPoolTest, GivesOutWhatCameBack) {
  BufferPool pool;
  const std::byte* data = nullptr;
  {
    BufferPool::Lease lease = pool.Take();
    EXPECT_EQ(lease.buffer().capacity(), 0u);
    ASSERT_TRUE(lease.buffer().Resize(1000).ok());
    data = lease.buffer().data();
  }
  EXPECT_EQ(pool.Take().buffer().data(), data);
}

TEST(BufferPoolTest, NeverGivesOneBufferToTwo) {
  BufferPool pool;
  { ASSERT_TRUE(pool.Take().buffer().Resize(1000).ok()); }
  BufferPool::Lease first = pool.Take();
  BufferPool::Lease second = pool.Take();
  EXPECT_NE(first.buffer().data(), nullptr);
  EXPECT_EQ(second.buffer().data(), nullptr);
}

TEST(BufferPoolTest, AMovedLeaseGivesBackOnce) {
  BufferPool pool;
  {
    BufferPool::Lease first = pool.Take();
    ASSERT_TRUE(first.buffer().Resize(1000).ok());
    BufferPool::Lease second = std::move(first);
    BufferPool::Lease third;
    third = std::move(second);
    EXPECT_EQ(third.buffer().size(), 1000u);
  }
  BufferPool::Lease again = pool.Take();
  EXPECT_NE(again.buffer().data(), nullptr);
  EXPECT_EQ(pool.Take().buffer().data(), nullptr);
}

TEST(BufferPoolTest, ServesManyThreads) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        BufferPool::Lease lease = pool.Take();
        ASSERT_TRUE(lease.buffer().Resize(64).ok());
        lease.buffer().data()[0] = static_cast<std::byte>(t);
        EXPECT_EQ(lease.buffer().data()[0], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hearth::strategy
