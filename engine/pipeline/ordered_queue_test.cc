#include "engine/pipeline/ordered_queue.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::pipeline {
namespace {

using Queue = OrderedQueue<int>;

std::unique_ptr<int> Item(int value) { return std::make_unique<int>(value); }

TEST(OrderedQueueTest, GivesOutInOrderWhatCameInAnyOrder) {
  Queue queue(4, 4);
  for (const int number : {2, 0, 3, 1}) {
    EXPECT_TRUE(queue.Push(number, Item(10 * number)));
  }
  EXPECT_EQ(queue.size(), 4);
  for (int number = 0; number < 4; ++number) {
    const Queue::Numbered taken = queue.Pop();
    EXPECT_EQ(taken.number, number);
    ASSERT_NE(taken.item, nullptr);
    EXPECT_EQ(*taken.item, 10 * number);
  }
  EXPECT_EQ(queue.size(), 0);
}

TEST(OrderedQueueTest, EndsAfterTheLastItemForEveryConsumer) {
  Queue queue(1, 1);
  EXPECT_TRUE(queue.Push(0, Item(5)));
  EXPECT_NE(queue.Pop().item, nullptr);
  EXPECT_EQ(queue.Pop().item, nullptr);
  EXPECT_EQ(queue.Pop().item, nullptr);
}

TEST(OrderedQueueTest, WithoutItemsEndsAtOnce) {
  Queue queue(3, 0);
  EXPECT_EQ(queue.Pop().item, nullptr);
}

TEST(OrderedQueueTest, ALaterItemWaitsUntilItsPlaceIsFree) {
  Queue queue(2, 3);
  EXPECT_TRUE(queue.Push(1, Item(1)));
  std::thread producer([&] {
    EXPECT_TRUE(queue.Push(2, Item(2)));  // Needs the place of item 0.
  });
  // Item 0 is put in although another waits: nothing can be taken before it.
  EXPECT_TRUE(queue.Push(0, Item(0)));
  for (int number = 0; number < 3; ++number) {
    EXPECT_EQ(queue.Pop().number, number);
  }
  producer.join();
}

TEST(OrderedQueueTest, EndsEarlierThanAnnounced) {
  Queue queue(2, 100);
  EXPECT_TRUE(queue.Push(0, Item(0)));
  // Beyond the end, before and after it is known, and one that waits for a
  // place.
  EXPECT_TRUE(queue.Push(1, Item(1)));
  std::thread producer([&] { EXPECT_FALSE(queue.Push(2, Item(2))); });
  queue.EndAt(3);
  queue.EndAt(1);
  queue.EndAt(2);
  producer.join();
  EXPECT_FALSE(queue.Push(3, Item(3)));
  EXPECT_NE(queue.Pop().item, nullptr);
  EXPECT_EQ(queue.Pop().item, nullptr);
}

TEST(OrderedQueueTest, TheEndWakesConsumers) {
  Queue queue(1, 10);
  std::thread consumer([&] { EXPECT_EQ(queue.Pop().item, nullptr); });
  queue.EndAt(0);
  consumer.join();
}

TEST(OrderedQueueTest, PushNextGivesOutInOrderOfArrival) {
  Queue queue(2, 3);
  EXPECT_TRUE(queue.PushNext(Item(7)));
  EXPECT_TRUE(queue.PushNext(Item(5)));
  std::thread producer([&] { EXPECT_TRUE(queue.PushNext(Item(6))); });
  for (const int value : {7, 5, 6}) {
    const Queue::Numbered taken = queue.Pop();
    ASSERT_NE(taken.item, nullptr);
    EXPECT_EQ(*taken.item, value);
  }
  producer.join();
  EXPECT_EQ(queue.Pop().item, nullptr) << "three there were";
}

TEST(OrderedQueueTest, CloseRefusesPushNext) {
  Queue queue(1, 3);
  EXPECT_TRUE(queue.PushNext(Item(1)));
  std::thread producer([&] { EXPECT_FALSE(queue.PushNext(Item(2))); });
  queue.Close();
  producer.join();
}

TEST(OrderedQueueTest, CloseWakesProducersAndConsumers) {
  Queue queue(1, 10);
  Queue empty(1, 10);
  EXPECT_TRUE(queue.Push(0, Item(0)));
  std::thread producer([&] { EXPECT_FALSE(queue.Push(1, Item(1))); });
  std::thread consumer([&] { EXPECT_EQ(empty.Pop().item, nullptr); });
  queue.Close();
  empty.Close();
  producer.join();
  consumer.join();
  EXPECT_EQ(queue.Pop().item, nullptr) << "closed with an item inside";
}

TEST(OrderedQueueTest, DestroysRefusedAndRemainingItems) {
  const auto tracked = std::make_shared<int>(1);
  using Tracked = std::shared_ptr<int>;
  {
    OrderedQueue<Tracked> queue(2, 5);
    EXPECT_TRUE(queue.Push(0, std::make_unique<Tracked>(tracked)));
    queue.Close();
    EXPECT_FALSE(queue.Push(1, std::make_unique<Tracked>(tracked)));
    EXPECT_EQ(tracked.use_count(), 2);
  }
  EXPECT_EQ(tracked.use_count(), 1);
}

TEST(OrderedQueueTest, ManyProducersAndConsumersLoseNothing) {
  constexpr int kItems = 3000;
  constexpr int kThreads = 4;
  Queue queue(3, kItems);
  std::vector<std::vector<int>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int n = t; n < kItems; n += kThreads) queue.Push(n, Item(n));
    });
    threads.emplace_back([&, t] {
      while (std::unique_ptr<int> item = queue.Pop().item) {
        taken[t].push_back(*item);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(kItems);
  for (const std::vector<int>& numbers : taken) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_FALSE(seen[numbers[i]]);
      seen[numbers[i]] = true;
    }
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kItems);
}

}  // namespace
}  // namespace hearth::pipeline
