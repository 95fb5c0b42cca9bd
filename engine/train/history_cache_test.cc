#include "engine/train/history_cache.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/safetensors.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

using sample::LiveHistory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kWidth = 3;

// A cache for candidates 7, 3 and 9 of a graph of ten nodes.
std::unique_ptr<HistoryCache> NewCache(int64_t width = kWidth,
                                       bool keeps_gradients = false) {
  auto cache = HistoryCache::Make(std::make_shared<sample::HistoryCandidates>(
                                      std::vector<store::NodeId>{7, 3, 9}, 10),
                                  width, keeps_gradients);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

sample::TopLayer Top(std::vector<store::NodeId> nodes,
                     std::vector<int32_t> pulled, std::vector<int32_t> pushed) {
  sample::TopLayer top;
  top.nodes = std::move(nodes);
  top.pulled = std::move(pulled);
  top.pushed = std::move(pushed);
  return top;
}

std::vector<float> Pull(const HistoryCache& cache,
                        const sample::TopLayer& top) {
  std::vector<float> rows(top.pulled.size() * cache.width());
  const absl::Status status = cache.Pull(top, rows.data());
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

TEST(HistoryCacheTest, GivesTheRowsThatWerePushedLast) {
  const auto cache = NewCache();
  const std::vector<float> first = {1, 2, 3, 4, 5, 6};
  cache->Push(Top({7, 5, 9}, {}, {0, 2}), 0, first.data());
  const std::vector<float> second = {-1, -2, -3};
  cache->Push(Top({9}, {}, {0}), 1, second.data());
  EXPECT_THAT(Pull(*cache, Top({9, 0, 7}, {0, 2}, {})),
              ElementsAre(-1, -2, -3, 1, 2, 3));
}

TEST(HistoryCacheTest, RefusesWhatWasNotPushed) {
  const auto cache = NewCache();
  std::vector<float> rows(kWidth);
  const absl::Status status = cache->Pull(Top({3}, {0}, {}), rows.data());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("node 3"));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(cache->Pull(Top({4}, {0}, {}), rows.data())));
  const std::vector<float> row = {1, 2, 3};
  cache->Push(Top({3}, {}, {0}), 0, row.data());
  EXPECT_TRUE(cache->Pull(Top({3}, {0}, {}), rows.data()).ok());
  cache->Clear();
  EXPECT_FALSE(cache->Pull(Top({3}, {0}, {}), rows.data()).ok());
}

TEST(HistoryCacheTest, TellsWhatIsFresh) {
  const auto cache = NewCache();
  const std::vector<float> rows = {1, 2, 3};
  cache->Push(Top({3}, {}, {0}), 4, rows.data());
  cache->Push(Top({7}, {}, {0}), 6, rows.data());
  EXPECT_THAT(cache->Live(7, 4),
              ElementsAre(LiveHistory{.slot = 0, .batch = 6},
                          LiveHistory{.slot = 1, .batch = 4}));
  EXPECT_THAT(cache->Live(8, 4),
              ElementsAre(LiveHistory{.slot = 0, .batch = 6}));
  EXPECT_THAT(cache->Live(10, 4), IsEmpty());
  EXPECT_THAT(cache->Live(7, 1), IsEmpty());
}

TEST(HistoryCacheTest, LoadsWhatItSaved) {
  const auto cache = NewCache();
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  cache->Push(Top({3, 9}, {}, {0, 1}), 8, rows.data());
  const store::TensorMap saved = cache->Save(cache->Live(9, 5));
  const auto other = NewCache();
  const std::vector<float> stale = {9, 9, 9};
  other->Push(Top({7}, {}, {0}), 8, stale.data());
  ASSERT_EQ(other->Load(saved), absl::OkStatus());
  EXPECT_EQ(other->Live(9, 5), cache->Live(9, 5));
  EXPECT_THAT(Pull(*other, Top({9, 3}, {0, 1}, {})),
              ElementsAre(4, 5, 6, 1, 2, 3));
}

bool AreEqual(const store::TensorMap& a, const store::TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) {
                      return one.first == other.first &&
                             one.second.shape == other.second.shape &&
                             one.second.data == other.second.data;
                    });
}

std::vector<float> TakeGradients(HistoryCache& cache,
                                 const sample::TopLayer& top) {
  std::vector<float> gradients(top.pushed.size() * cache.width(), -99);
  cache.TakeGradients(top, gradients.data());
  return gradients;
}

TEST(HistoryCacheTest, GradientsAddUpUntilTheyAreTaken) {
  const auto cache = NewCache(kWidth, /*keeps_gradients=*/true);
  const std::vector<float> gradients = {1, 2, 3, 10, 20, 30};
  cache->AddGradients(Top({7, 5, 3}, {0, 2}, {}), gradients.data());
  cache->AddGradients(Top({3, 7}, {0, 1}, {}), gradients.data());
  // Clear keeps all gradients.
  cache->Clear();
  EXPECT_THAT(TakeGradients(*cache, Top({9, 3}, {}, {0, 1})),
              ElementsAre(0, 0, 0, 11, 22, 33));
  EXPECT_THAT(TakeGradients(*cache, Top({7, 3}, {}, {0, 1})),
              ElementsAre(11, 22, 33, 0, 0, 0));
}

TEST(HistoryCacheTest, LoadsTheGradientsThatItSaved) {
  const auto cache = NewCache(kWidth, /*keeps_gradients=*/true);
  EXPECT_TRUE(cache->Save({}).empty());
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  cache->Push(Top({3}, {}, {0}), 8, rows.data());
  EXPECT_EQ(cache->Save(cache->Live(9, 5)).size(), 3u);
  cache->AddGradients(Top({9, 7}, {0, 1}, {}), rows.data());
  const store::TensorMap saved = cache->Save(cache->Live(9, 5));
  const auto other = NewCache(kWidth, /*keeps_gradients=*/true);
  other->AddGradients(Top({3}, {0}, {}), rows.data());
  ASSERT_EQ(other->Load(saved), absl::OkStatus());
  EXPECT_EQ(other->Live(9, 5), cache->Live(9, 5));
  EXPECT_TRUE(AreEqual(other->Save(other->Live(9, 5)), saved));
  EXPECT_THAT(TakeGradients(*other, Top({3, 7, 9}, {}, {0, 1, 2})),
              ElementsAre(0, 0, 0, 4, 5, 6, 1, 2, 3));
  // Between epochs there are only gradients.
  const store::TensorMap between = cache->Save({});
  ASSERT_EQ(other->Load(between), absl::OkStatus());
  EXPECT_THAT(other->Live(9, 5), IsEmpty());
  EXPECT_TRUE(AreEqual(other->Save({}), between));
}

TEST(HistoryCacheTest, RefusesGradientsThatDoNotFit) {
  const auto cache = NewCache(kWidth, /*keeps_gradients=*/true);
  const std::vector<float> rows = {1, 2, 3};
  cache->AddGradients(Top({3}, {0}, {}), rows.data());
  const store::TensorMap saved = cache->Save({});
  EXPECT_TRUE(absl::IsDataLoss(NewCache()->Load(saved)));
  EXPECT_TRUE(absl::IsDataLoss(
      NewCache(kWidth + 1, /*keeps_gradients=*/true)->Load(saved)));
  store::TensorMap wrong = saved;
  wrong.at("gradient_slots").data[0] = std::byte{3};
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
  wrong = saved;
  wrong.erase("gradient_slots");
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
  wrong = saved;
  wrong.at("gradients").shape = {3};
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
}

TEST(HistoryCacheTest, RefusesWhatDoesNotFit) {
  const auto cache = NewCache();
  const std::vector<float> rows = {1, 2, 3};
  cache->Push(Top({3}, {}, {0}), 8, rows.data());
  const store::TensorMap saved = cache->Save(cache->Live(9, 5));
  EXPECT_TRUE(absl::IsDataLoss(NewCache(kWidth + 1)->Load(saved)));
  EXPECT_TRUE(absl::IsDataLoss(cache->Load({})));
  store::TensorMap wrong = saved;
  wrong.at("slots").data[0] = std::byte{3};
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
  wrong = saved;
  wrong.at("batches").shape = {2};
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
  wrong = saved;
  wrong["more"] = wrong.at("rows");
  EXPECT_TRUE(absl::IsDataLoss(cache->Load(wrong)));
}

TEST(HistoryCacheTest, ModelsWithoutEmbeddingsKeepNone) {
  const auto cache = NewCache(0);
  cache->Push(Top({3}, {}, {0}), 0, nullptr);
  EXPECT_TRUE(cache->Pull(Top({3}, {0}, {}), nullptr).ok());
}

}  // namespace
}  // namespace hearth::train
