#include "engine/cache/direct_cache.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/assemble.h"
#include "engine/store/array_type.h"
#include "engine/store/feature_rows.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

using store::NodeId;

constexpr store::RowFormat kFloats = {.dim = 3,
                                      .dtype = store::DType::kFloat32};

void Put(DirectCache& cache, int64_t slot, const std::vector<float>& row) {
  std::memcpy(cache.row(slot), row.data(), row.size() * sizeof(float));
}

TEST(DirectCacheTest, CapacityCountsTheTable) {
  EXPECT_EQ(DirectCache::Capacity(0, 10, 4), 0);
  EXPECT_EQ(DirectCache::Capacity(80, 10, 4), 0);
  EXPECT_EQ(DirectCache::Capacity(83, 10, 4), 0);
  EXPECT_EQ(DirectCache::Capacity(84, 10, 4), 1);
  EXPECT_EQ(DirectCache::Capacity(95, 10, 4), 3);
  EXPECT_EQ(DirectCache::Capacity(uint64_t{1} << 62, 10, 4), 10);
}

TEST(DirectCacheTest, FindsWhatItWasFilledWith) {
  auto cache = DirectCache::Make(10, 4, kFloats);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(cache->capacity(), 4);
  for (NodeId node = 0; node < 10; ++node) {
    EXPECT_EQ(cache->Find(node), DirectCache::kAbsent);
  }
  cache->Fill({7, 2});
  EXPECT_EQ(cache->Find(7), 0);
  EXPECT_EQ(cache->Find(2), 1);
  EXPECT_EQ(cache->Find(3), DirectCache::kAbsent);
}

// The example of figure 11: 2 and 5 take the places of 0 and 6.
TEST(DirectCacheTest, ReplacesRowsBySlot) {
  auto cache = *DirectCache::Make(10, 5, kFloats);
  cache.Fill({0, 1, 4, 6, 7});
  std::vector<int64_t> slots;
  cache.Replace({2, 5}, {0, 6}, slots);
  EXPECT_EQ(slots, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(cache.Find(0), DirectCache::kAbsent);
  EXPECT_EQ(cache.Find(6), DirectCache::kAbsent);
  EXPECT_EQ(cache.Find(2), 0);
  EXPECT_EQ(cache.Find(5), 3);
  cache.Replace({}, {}, slots);
  EXPECT_TRUE(slots.empty());
}

TEST(DirectCacheTest, ScattersInAnyOrder) {
  const auto team = *ThreadTeam::Create(2);
  auto made = *DirectCache::Make(10, 3, kFloats);
  DirectCache cache = std::move(made);
  Put(cache, 0, {1, 2, 3});
  Put(cache, 1, {4, 5, 6});
  Put(cache, 2, {7, 8, 9});
  std::vector<float> out(12);
  cache.Scatter(*team, {2, 0, 2}, {3, 2, 0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{7, 8, 9, 0, 0, 0, 1, 2, 3, 7, 8, 9}));
}

TEST(DirectCacheTest, WidensWhatIsStored) {
  const auto team = *ThreadTeam::Create(2);
  constexpr store::RowFormat kHalves = {.dim = 2,
                                        .dtype = store::DType::kFloat16};
  auto cache = *DirectCache::Make(4, 1, kHalves);
  const std::vector<uint16_t> halves = {0x3C00, 0xC000};  // 1, -2.
  std::memcpy(cache.row(0), halves.data(), 4);
  std::vector<float> out(2);
  cache.Scatter(*team, {0}, {0}, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, -2}));
  WidenRow(kHalves, cache.row(0), out.data());
  EXPECT_EQ(out, (std::vector<float>{1, -2}));
  const std::vector<uint16_t> brains = {0x3F80, 0xC000};
  WidenRow({.dim = 2, .dtype = store::DType::kBFloat16},
           reinterpret_cast<const std::byte*>(brains.data()), out.data());
  EXPECT_EQ(out, (std::vector<float>{1, -2}));
}

TEST(DirectCacheTest, WithoutSlotsNothingIsInside) {
  const auto team = *ThreadTeam::Create(2);
  const auto cache = *DirectCache::Make(1 << 20, 0, kFloats);
  EXPECT_EQ(cache.Find(77), DirectCache::kAbsent);
  cache.Prefetch(77);
  cache.Scatter(*team, {}, {}, nullptr);
}

TEST(DirectCacheTest, RefusesWhatFitsNoMemory) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      DirectCache::Make(10, int64_t{1} << 54, kFloats).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      DirectCache::Make(int64_t{1} << 54, 1, kFloats).status()));
}

}  // namespace
}  // namespace hearth::cache
