#include "engine/strategy/sampled_batch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

TEST(SampledBatchTest, HoldsABufferOnlyOnceItIsAssembled) {
  BufferPool pool;
  { ASSERT_TRUE(pool.Take().buffer().Resize(64).ok()); }
  SampledBatch waiting(1);
  EXPECT_EQ(waiting.number(), 1);
  SampledBatch assembled(0);
  assembled.sample().input_nodes = {3, 4};
  const absl::StatusOr<float*> inputs = assembled.TakeInputs(8, pool);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(pool.Take().buffer().data(), nullptr) << "there was one only";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*inputs) % 64, 0u);
}

TEST(SampledBatchTest, ShowsTheTrainerWhatWasFilledIn) {
  BufferPool pool;
  SampledBatch batch(5);
  batch.sample().input_nodes = {3, 4, 7};
  batch.sample().num_seeds = 2;
  const auto labels = store::Labels::Classes({0, 0, 0, 1, 0}, 2);
  batch.TakeLabels(labels, {3, 4});
  float* const inputs = *batch.TakeInputs(2, pool);
  inputs[5] = 6;
  const train::BatchView view = batch.view();
  EXPECT_EQ(&view.sample, &batch.sample());
  EXPECT_EQ(view.inputs, inputs);
  EXPECT_EQ(view.feature_dim, 2);
  EXPECT_THAT(view.labels.classes, ::testing::ElementsAre(1, 0));
  EXPECT_EQ(view.all_labels, &labels);
  EXPECT_EQ(batch.num_rows(), 3);
}

TEST(SampledBatchTest, GivesTheBufferBackWhenDestroyed) {
  BufferPool pool;
  auto batch = std::make_unique<SampledBatch>(0);
  batch->sample().input_nodes = {1};
  const float* const inputs = *batch->TakeInputs(16, pool);
  batch.reset();
  EXPECT_EQ(static_cast<const void*>(pool.Take().buffer().data()), inputs);
}

TEST(SampledBatchTest, RefusesRowsThatFitNoMemory) {
  BufferPool pool;
  SampledBatch batch(0);
  batch.sample().input_nodes = {1, 2};
  EXPECT_TRUE(absl::IsResourceExhausted(
      batch.TakeInputs(int64_t{1} << 53, pool).status()));
}

}  // namespace

}  // namespace hearth::strategy
