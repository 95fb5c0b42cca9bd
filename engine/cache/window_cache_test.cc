#include "engine/cache/window_cache.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "engine/base/random.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::cache {

namespace {

TEST(RowSetTest, TheEmptySetHasNobody) {
  const RowSet none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.Find(0), RowSet::kAbsent);
  EXPECT_EQ(RowSet(10, {}).Find(9), RowSet::kAbsent);
}

TEST(RowSetTest, MembersAreNumberedInAscendingOrder) {
  // Whole blocks, and one node more.
  for (const int64_t num_nodes : {1, 64, 448, 449, 5000}) {
    for (const uint64_t one_in : {1, 2, 700}) {
      SCOPED_TRACE(testing::Message() << num_nodes << ", 1 in " << one_in);
      RandomStream random(num_nodes, RandomPurpose::kGenerator, one_in);
      std::vector<store::NodeId> members;
      for (int64_t node = 0; node < num_nodes; ++node) {
        if (random.Below(one_in) == 0) members.push_back(node);
      }
      const RowSet set(num_nodes, members);
      EXPECT_EQ(set.size(), static_cast<int64_t>(members.size()));
      int64_t place = 0;
      for (int64_t node = 0; node < num_nodes; ++node) {
        const bool is_member = place < set.size() && members[place] == node;
        EXPECT_EQ(set.Find(node), is_member ? place : RowSet::kAbsent) << node;
        place += is_member ? 1 : 0;
      }
    }
  }
}

using Nodes = std::vector<store::NodeId>;
using Entries = std::vector<WindowCache::Entry>;

RandomStream Random(uint64_t key = 0) {
  return {1, RandomPurpose::kEviction, key};
}

Entries Enter(WindowCache& cache, const Nodes& nodes) {
  Entries entries;
  cache.Enter(nodes, entries);
  return entries;
}

// A batch that is alone in the window: hits.
int64_t Pass(WindowCache& cache, const Nodes& nodes) {
  const Entries entries = Enter(cache, nodes);
  RandomStream random = Random();
  int64_t hits = 0;
  for (const auto entry : entries) {
    hits += cache.Locate(entry, random).is_hit ? 1 : 0;
  }
  cache.Leave(entries);
  return hits;
}

TEST(WindowCacheTest, FreeLinesAreUsedFirst) {
  WindowCache cache(3);
  EXPECT_EQ(Pass(cache, {7}), 0);
  EXPECT_EQ(Pass(cache, {8, 9}), 0);
  EXPECT_EQ(cache.num_used(), 3);
  EXPECT_EQ(cache.num_safe(), 3);
  EXPECT_EQ(Pass(cache, {9, 8, 7}), 3);
}

TEST(WindowCacheTest, RowsThatTheWindowNeedsAreNeverEvicted) {
  WindowCache cache(2);
  Pass(cache, {1, 2});
  const Entries first = Enter(cache, {3});
  const Entries later = Enter(cache, {1});
  EXPECT_EQ(cache.num_safe(), 1) << "1 is needed at once";
  RandomStream random = Random();
  EXPECT_FALSE(cache.Locate(first[0], random).is_hit);
  cache.Leave(first);
  EXPECT_TRUE(cache.Locate(later[0], random).is_hit);
  cache.Leave(later);
  EXPECT_EQ(Pass(cache, {2}), 0) << "it made room for 3";
}

TEST(WindowCacheTest, WithoutASafeLineARowGoesPastTheCache) {
  WindowCache cache(1);
  const Entries batch = Enter(cache, {1, 2});
  RandomStream random = Random();
  EXPECT_EQ(cache.Locate(batch[0], random).line, 0);
  EXPECT_EQ(cache.Locate(batch[1], random).line, WindowCache::kNoLine);
  cache.Leave(batch);
  EXPECT_EQ(Pass(cache, {1}), 1);
  WindowCache none(0);
  EXPECT_EQ(Pass(none, {1, 2, 3}), 0);
  EXPECT_EQ(Pass(none, {1, 2, 3}), 0);
}

TEST(WindowCacheTest, ARowStaysForAsManyBatchesAsNeedIt) {
  WindowCache cache(1);
  const Entries first = Enter(cache, {1});
  const Entries second = Enter(cache, {2});
  const Entries third = Enter(cache, {1});
  RandomStream random = Random();
  EXPECT_EQ(cache.Locate(first[0], random).line, 0);
  cache.Leave(first);
  EXPECT_EQ(cache.Locate(second[0], random).line, WindowCache::kNoLine);
  cache.Leave(second);
  EXPECT_TRUE(cache.Locate(third[0], random).is_hit);
  cache.Leave(third);
  EXPECT_EQ(cache.num_safe(), 1);
}

TEST(WindowCacheTest, EverySafeRowIsEvictedEquallyOften) {
  constexpr int kLines = 8;
  std::map<int32_t, int> evictions;
  for (uint64_t key = 0; key < 4000; ++key) {
    WindowCache cache(kLines);
    Nodes rows(kLines);
    std::iota(rows.begin(), rows.end(), 0);
    Pass(cache, rows);
    RandomStream random = Random(key);
    ++evictions[cache.Locate(Enter(cache, {100})[0], random).line];
  }
  ASSERT_EQ(evictions.size(), static_cast<size_t>(kLines));
  for (const auto& [line, count] : evictions) {
    // Six standard deviations.
    EXPECT_NEAR(count, 500, 6 * 21) << line;
  }
}

TEST(WindowCacheTest, ClearForgetsRowsAndBatches) {
  WindowCache cache(4);
  Pass(cache, {1, 2, 3});
  Enter(cache, {1, 5});
  cache.Clear();
  EXPECT_EQ(cache.num_used(), 0);
  EXPECT_EQ(Pass(cache, {1, 2, 3}), 0);
  EXPECT_EQ(Pass(cache, {1, 2, 3}), 3);
}

// The same table, with lists instead of counters: a line has a row; it is in
// use if a batch of the window has the row.
class ListedCache {
 public:
  explicit ListedCache(int64_t num_lines) : num_lines_(num_lines) {}

  void Enter(const Nodes& nodes) { window_.push_back(nodes); }

  // Whether the row is there; otherwise it may take any of `open` lines.
  struct Place {
    int32_t hit = WindowCache::kNoLine;
    std::set<int32_t> open;
  };
  Place Locate(store::NodeId node) const {
    Place place;
    std::set<store::NodeId> needed;
    for (const Nodes& batch : window_)
      needed.insert(batch.begin(), batch.end());
    for (const auto& [line, row] : rows_) {
      if (row == node) place.hit = line;
      if (!needed.contains(row)) place.open.insert(line);
    }
    const auto used = static_cast<int32_t>(rows_.size());
    if (used < num_lines_) place.open = {used};
    return place;
  }
  void Put(store::NodeId node, int32_t line) { rows_[line] = node; }
  void Leave() { window_.pop_front(); }

 private:
  const int64_t num_lines_;
  std::map<int32_t, store::NodeId> rows_;
  std::deque<Nodes> window_;
};

TEST(WindowCacheTest, DoesWhatListsOfTheWindowSay) {
  RandomStream random(3, RandomPurpose::kGenerator);
  for (const int64_t num_lines : {0, 1, 7, 40}) {
    WindowCache cache(num_lines);
    ListedCache listed(num_lines);
    std::deque<std::pair<Nodes, Entries>> window;
    for (int step = 0; step < 300; ++step) {
      std::set<store::NodeId> drawn;
      for (int i = 0; i < 12; ++i) {
        // Low numbers more often.
        drawn.insert(
            static_cast<store::NodeId>(random.Below(1 + random.Below(60))));
      }
      const Nodes nodes(drawn.begin(), drawn.end());
      listed.Enter(nodes);
      window.emplace_back(nodes, Enter(cache, nodes));
      if (window.size() < 4) continue;
      const auto& [batch, entries] = window.front();
      for (size_t i = 0; i < batch.size(); ++i) {
        const ListedCache::Place expected = listed.Locate(batch[i]);
        const WindowCache::Place place = cache.Locate(entries[i], random);
        ASSERT_EQ(place.is_hit, expected.hit != WindowCache::kNoLine);
        if (place.is_hit) {
          ASSERT_EQ(place.line, expected.hit);
        } else if (place.line == WindowCache::kNoLine) {
          ASSERT_TRUE(expected.open.empty());
        } else {
          ASSERT_TRUE(expected.open.contains(place.line));
          listed.Put(batch[i], place.line);
        }
      }
      cache.Leave(entries);
      listed.Leave();
      window.pop_front();
    }
  }
}

}  // namespace

}  // namespace hearth::cache
