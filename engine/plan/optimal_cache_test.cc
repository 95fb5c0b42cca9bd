#include "engine/plan/optimal_cache.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

using store::NodeId;
using Batches = VectorTrace::Batches;
using Entry = OptimalCache::Entry;
using Filled = OptimalCache::Filled;
using Options = OptimalCache::Options;
using Totals = OptimalCache::Totals;

// What a plan says of a batch, kept.
struct PlannedBatch {
  std::vector<uint32_t> addresses;
  std::vector<uint32_t> reads;
  std::vector<Entry> entries;
  std::vector<uint32_t> drops = {};
  friend bool operator==(const PlannedBatch&, const PlannedBatch&) = default;
};

// A plan, kept.
struct Recorder final : public OptimalCache::Sink {
  std::vector<Filled> filled;
  std::vector<PlannedBatch> batches;
  int64_t fill_calls = 0;
  int64_t failing_batch = -1;
  bool fails_fill = false;

  absl::Status Fill(absl::Span<const Filled> rows) override {
    if (fails_fill) return absl::ResourceExhaustedError("full");
    EXPECT_TRUE(batches.empty()) << "filled too late";
    EXPECT_FALSE(rows.empty());
    EXPECT_LE(std::ssize(rows), OptimalCache::kFillRows);
    filled.insert(filled.end(), rows.begin(), rows.end());
    ++fill_calls;
    return absl::OkStatus();
  }
  absl::Status Batch(int64_t batch,
                     const OptimalCache::BatchPlan& plan) override {
    if (batch == failing_batch) return absl::ResourceExhaustedError("full");
    EXPECT_EQ(batch, std::ssize(batches));
    batches.push_back({{plan.addresses.begin(), plan.addresses.end()},
                       {plan.reads.begin(), plan.reads.end()},
                       {plan.entries.begin(), plan.entries.end()},
                       {plan.drops.begin(), plan.drops.end()}});
    return absl::OkStatus();
  }
};

// What is planned of a trace.
struct Extent {
  int64_t end = 0;
  bool complete = false;
  bool fill = false;
};

class OptimalCacheTest : public ::testing::Test {
 protected:
  Options MakeOptions(int64_t num_nodes, int64_t num_slots,
                      int64_t reuse_distance = 0) const {
    return {.num_nodes = num_nodes,
            .num_slots = num_slots,
            .reuse_distance = reuse_distance,
            .scratch_path = path_};
  }

  // Plans; expects that it succeeds.
  Totals Plan(const Batches& batches, const Extent& extent,
              const Options& options, CacheSlots& slots, Recorder& recorder) {
    VectorTrace trace(batches);
    const auto totals =
        OptimalCache::Plan(posix_, trace, extent.end, extent.complete,
                           extent.fill, options, slots, recorder, {});
    EXPECT_TRUE(totals.ok()) << totals.status();
    EXPECT_EQ(trace.loads(), trace.num_batches() + extent.end);
    return totals.ok() ? *totals : Totals();
  }

  // Plans a whole trace with which a job ends, from an empty cache.
  Totals PlanAll(const Batches& batches, const Options& options, bool fill,
                 Recorder& recorder) {
    CacheSlots slots = OptimalCache::FreeSlots(options);
    return Plan(batches,
                {.end = std::ssize(batches), .complete = true, .fill = fill},
                options, slots, recorder);
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("next_uses");
};

// Batches of distinct nodes, in random order, of which some are empty and some
// repeat an earlier one; with `skew`, small numbers are far more frequent.
Batches RandomBatches(RandomStream& random, int64_t num_nodes, int64_t count,
                      bool skew) {
  Batches batches;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && random.Below(5) == 0) {
      batches.push_back(batches[random.Below(batches.size())]);
      continue;
    }
    std::set<NodeId> chosen;
    const auto size = static_cast<int64_t>(random.Below(num_nodes + 1));
    for (int64_t j = 0; j < size; ++j) {
      auto node = static_cast<NodeId>(random.Below(num_nodes));
      if (skew) node = static_cast<NodeId>(random.Below(node + 1));
      chosen.insert(node);
    }
    std::vector<NodeId> batch(chosen.begin(), chosen.end());
    for (size_t j = batch.size(); j > 1; --j) {
      std::swap(batch[j - 1], batch[random.Below(j)]);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

Batches Slice(const Batches& batches, int64_t begin, int64_t end) {
  return {batches.begin() + begin, batches.begin() + end};
}

// The nodes of a state's rows.
std::set<NodeId> NodesOf(const CacheSlots& slots) {
  std::set<NodeId> nodes(slots.nodes.begin(), slots.nodes.end());
  nodes.erase(CacheSlots::kFree);
  return nodes;
}

// The same as bits.
uint32_t Contents(const CacheSlots& slots) {
  uint32_t contents = 0;
  for (const NodeId node : NodesOf(slots)) contents |= 1u << node;
  return contents;
}

// The fewest reads of any sequence of cache contents, from `start` on: tries
// all decisions what to keep. Sets of nodes are bits.
int64_t FewestReads(const Batches& batches, int num_nodes, int64_t capacity,
                    uint32_t start) {
  constexpr int64_t kImpossible = INT64_MAX / 2;
  const uint32_t sets = 1u << num_nodes;
  std::vector<int64_t> reads(sets, kImpossible);
  reads[start] = 0;
  for (const std::vector<NodeId>& batch : batches) {
    uint32_t needed = 0;
    for (const NodeId node : batch) needed |= 1u << node;
    std::vector<int64_t> after(sets, kImpossible);
    for (uint32_t inside = 0; inside < sets; ++inside) {
      if (reads[inside] == kImpossible) continue;
      const int64_t total =
          reads[inside] + __builtin_popcount(needed & ~inside);
      const uint32_t all = inside | needed;
      for (uint32_t kept = 0; kept < sets; ++kept) {
        if ((kept & ~all) != 0 || __builtin_popcount(kept) > capacity) continue;
        after[kept] = std::min(after[kept], total);
      }
    }
    reads = std::move(after);
  }
  return *std::min_element(reads.begin(), reads.end());
}

// An actual cache that executes plans: it has the numbers of the nodes for
// rows.
class Replay {
 public:
  explicit Replay(const Options& options)
      : options_(options),
        rows_(static_cast<size_t>(options.num_slots), kNone),
        read_by_(static_cast<size_t>(options.num_slots), INT64_MIN / 2) {}

  // Executes a plan of `batches`, and expects that each address leads to the
  // row of its node.
  void Execute(const Batches& batches, const Recorder& plan) {
    for (size_t i = 0; i < plan.filled.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(plan.filled[i - 1].node, plan.filled[i].node);
      }
      EXPECT_EQ(rows_[plan.filled[i].slot], kNone) << "filled twice";
      Write(plan.filled[i].slot, plan.filled[i].node);
    }
    for (size_t i = 0; i < plan.batches.size(); ++i) {
      Assemble(batches[i], plan.batches[i]);
      ++batch_;
    }
  }

  // Expects that a state has the rows that are here, and when each slot was
  // last read.
  void ExpectState(const CacheSlots& slots) const {
    for (size_t slot = 0; slot < rows_.size(); ++slot) {
      EXPECT_EQ(rows_[slot], slots.nodes[slot] == CacheSlots::kFree
                                 ? kNone
                                 : NodeId{slots.nodes[slot]});
      EXPECT_EQ(slots.idle[slot],
                std::min(batch_ - read_by_[slot], options_.reuse_distance));
    }
  }

 private:
  static constexpr NodeId kNone = -1;

  void Assemble(const std::vector<NodeId>& nodes, const PlannedBatch& plan) {
    EXPECT_TRUE(std::is_sorted(plan.reads.begin(), plan.reads.end()));
    ASSERT_EQ(plan.addresses.size(), nodes.size());
    size_t found = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const uint32_t address = plan.addresses[i];
      if (address < options_.num_slots) {
        EXPECT_EQ(rows_[address], nodes[i]);
        read_by_[address] = batch_;
        ++found;
      } else {
        ASSERT_LT(address - options_.num_slots, std::ssize(plan.reads));
        EXPECT_EQ(plan.reads[address - options_.num_slots], nodes[i]);
      }
    }
    EXPECT_EQ(plan.reads.size(), nodes.size() - found);
    for (const uint32_t slot : plan.drops) {
      ASSERT_LT(slot, rows_.size());
      EXPECT_NE(std::exchange(rows_[slot], kNone), kNone);
    }
    std::set<uint32_t> entered;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
      const Entry& entry = plan.entries[i];
      if (i > 0) {
        EXPECT_LT(plan.entries[i - 1].read, entry.read);
      }
      ASSERT_LT(entry.read, plan.reads.size());
      EXPECT_TRUE(entered.insert(entry.slot).second) << "two in one slot";
      Write(entry.slot, plan.reads[entry.read]);
    }
  }

  void Write(uint32_t slot, NodeId node) {
    ASSERT_LT(slot, rows_.size());
    EXPECT_GE(batch_ - read_by_[slot], options_.reuse_distance);
    EXPECT_EQ(rows_[slot], kNone);
    rows_[slot] = node;
  }

  const Options options_;
  // Number of the next batch.
  int64_t batch_ = 0;
  std::vector<NodeId> rows_;
  std::vector<int64_t> read_by_;
};

// The cache written plainly: it looks through the trace for next uses, and
// through all rows for the one that is needed last.
class Simulation {
 public:
  // Rows that may enter, the soonest needed first.
  using Candidates = std::set<std::pair<int64_t, NodeId>>;

  Simulation(const Batches& batches, const Extent& extent,
             const Options& options, const CacheSlots& slots)
      : batches_(batches),
        extent_(extent),
        capacity_(OptimalCache::Capacity(options)),
        distance_(options.reuse_distance) {
    for (size_t slot = 0; slot < slots.nodes.size(); ++slot) {
      const int64_t from = distance_ - slots.idle[slot];
      if (slots.nodes[slot] == CacheSlots::kFree) {
        free_.insert(from);
      } else {
        Place(slots.nodes[slot], /*after=*/-1, from);
      }
    }
    if (extent.fill) Fill();
  }

  // Batch `batch`: returns its reads, and changes the cache.
  std::vector<uint32_t> Step(int64_t batch) {
    std::vector<uint32_t> reads;
    Candidates candidates;
    for (const NodeId node : batches_[batch]) {
      if (inside_.contains(node)) {
        Place(node, batch, batch + distance_);
        continue;
      }
      reads.push_back(static_cast<uint32_t>(node));
      const int64_t next = NextUse(node, batch);
      if (next < std::ssize(batches_) || !extent_.complete) {
        candidates.insert({next, node});
      }
    }
    std::sort(reads.begin(), reads.end());
    Exchange(batch, candidates);
    return reads;
  }

  // Nodes of the rows inside.
  std::set<NodeId> Nodes() const {
    std::set<NodeId> nodes;
    for (const auto& [node, row] : inside_) nodes.insert(node);
    return nodes;
  }

  int64_t filled() const { return filled_; }
  int64_t uncertified() const { return uncertified_; }

 private:
  struct Row {
    int64_t next;
    // Of rows needed last, the one whose next use was found last leaves.
    int64_t age;
    int64_t reusable_from;
  };

  int64_t NextUse(NodeId node, int64_t after) const {
    int64_t next = after + 1;
    while (next < std::ssize(batches_) &&
           std::count(batches_[next].begin(), batches_[next].end(), node) ==
               0) {
      ++next;
    }
    return next;
  }

  void Place(NodeId node, int64_t after, int64_t reusable_from) {
    inside_[node] = {NextUse(node, after), age_++, reusable_from};
  }

  void Fill() {
    std::set<NodeId> added;
    for (const std::vector<NodeId>& batch : batches_) {
      for (const NodeId node : std::set<NodeId>(batch.begin(), batch.end())) {
        if (inside_.contains(node) || added.contains(node)) continue;
        if (std::ssize(inside_) + std::ssize(added) == capacity_) break;
        if (free_.empty() || *free_.begin() > 0) break;
        free_.erase(free_.begin());
        added.insert(node);
      }
    }
    for (const NodeId node : added) Place(node, /*after=*/-1, 0);
    filled_ = std::ssize(added);
  }

  // Entries if every slot could be overwritten.
  int64_t WouldEnter(const Candidates& candidates) const {
    std::multiset<int64_t> next_uses;
    for (const auto& [node, row] : inside_) next_uses.insert(row.next);
    int64_t entries = 0;
    for (const auto& [next, node] : candidates) {
      if (std::ssize(next_uses) == capacity_) {
        if (capacity_ == 0 || *next_uses.rbegin() <= next) break;
        next_uses.erase(std::prev(next_uses.end()));
      }
      next_uses.insert(next);
      ++entries;
    }
    return entries;
  }

  void Exchange(int64_t batch, const Candidates& candidates) {
    const int64_t would_enter = WouldEnter(candidates);
    std::set<NodeId> entering;
    int64_t dropped_unknown = 0;
    for (const auto& [next, node] : candidates) {
      if (std::ssize(entering) == would_enter) break;
      const bool full = std::ssize(inside_) + std::ssize(entering) == capacity_;
      const auto last = std::max_element(
          inside_.begin(), inside_.end(), [](const auto& a, const auto& b) {
            return std::tie(a.second.next, a.second.age) <
                   std::tie(b.second.next, b.second.age);
          });
      const int64_t from =
          std::min(free_.empty() ? INT64_MAX : *free_.begin(),
                   full ? last->second.reusable_from : INT64_MAX);
      if (from > batch) break;
      if (full) {
        dropped_unknown += last->second.next == std::ssize(batches_);
        free_.insert(last->second.reusable_from);
        inside_.erase(last);
      }
      free_.erase(free_.begin());
      entering.insert(node);
    }
    uncertified_ += would_enter - std::ssize(entering);
    for (const NodeId node : entering) Place(node, batch, batch);
    if (extent_.complete) return;
    int64_t position = 0;
    for (const auto& [next, node] : candidates) {
      dropped_unknown +=
          position++ >= would_enter && next == std::ssize(batches_);
    }
    for (const auto& [node, row] : inside_) {
      if (row.next < std::ssize(batches_)) continue;
      uncertified_ += dropped_unknown;
      break;
    }
  }

  const Batches& batches_;
  const Extent extent_;
  const int64_t capacity_;
  const int64_t distance_;
  std::map<NodeId, Row> inside_;
  // From when on each free slot can be overwritten.
  std::multiset<int64_t> free_;
  int64_t age_ = 0;
  int64_t filled_ = 0;
  int64_t uncertified_ = 0;
};

// Every property at once: plans follow each other, each with look-ahead of its
// own, and each equals the simulation, while a cache executes them.
TEST_F(OptimalCacheTest, ChainedPlansEqualTheSimulationAndCanBeExecuted) {
  RandomStream random(1, RandomPurpose::kGenerator);
  int64_t filled = 0;
  int64_t uncertified = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto num_nodes = static_cast<int64_t>(1 + random.Below(60));
    const auto num_batches = static_cast<int64_t>(random.Below(24));
    const Batches batches =
        RandomBatches(random, num_nodes, num_batches, trial % 2);
    const Options options = MakeOptions(
        num_nodes, static_cast<int64_t>(random.Below(num_nodes + 5)),
        trial % 3 == 0 ? 0 : static_cast<int64_t>(random.Below(10)));
    CacheSlots slots = OptimalCache::FreeSlots(options);
    Replay replay(options);
    int64_t begin = 0;
    do {
      SCOPED_TRACE(absl::StrCat("trial ", trial, ", from batch ", begin));
      const auto left = static_cast<uint64_t>(num_batches - begin);
      const auto end = static_cast<int64_t>(random.Below(left + 1));
      const int64_t known = end + static_cast<int64_t>(random.Below(
                                      static_cast<uint64_t>(left - end + 1)));
      const Batches trace = Slice(batches, begin, begin + known);
      const Extent extent = {.end = end,
                             .complete = known == std::ssize(batches) - begin &&
                                         random.Below(2) == 0,
                             .fill = random.Below(3) == 0};
      Simulation simulation(trace, extent, options, slots);
      CacheSlots again = slots;
      Recorder plan;
      const Totals totals = Plan(trace, extent, options, slots, plan);
      ASSERT_EQ(std::ssize(plan.batches), end);
      Totals expected = {.filled = simulation.filled()};
      for (int64_t batch = 0; batch < end; ++batch) {
        const PlannedBatch& planned = plan.batches[batch];
        EXPECT_EQ(planned.reads, simulation.Step(batch)) << "batch " << batch;
        expected.accesses += std::ssize(trace[batch]);
        expected.misses += std::ssize(planned.reads);
        expected.entered += std::ssize(planned.entries);
      }
      expected.uncertified = simulation.uncertified();
      EXPECT_EQ(totals, expected);
      EXPECT_EQ(NodesOf(slots), simulation.Nodes());
      replay.Execute(trace, plan);
      replay.ExpectState(slots);

      Recorder replanned;
      EXPECT_EQ(Plan(trace, extent, options, again, replanned), totals);
      EXPECT_EQ(again, slots);
      EXPECT_EQ(replanned.batches, plan.batches);
      EXPECT_EQ(replanned.filled, plan.filled);
      filled += totals.filled;
      uncertified += totals.uncertified;
      begin += end;
      if (HasFailure()) return;
    } while (begin < num_batches && random.Below(20) != 0);
  }
  EXPECT_GT(filled, 0);
  EXPECT_GT(uncertified, 0);
}

TEST_F(OptimalCacheTest, NoSequenceOfCachesReadsLess) {
  RandomStream random(2, RandomPurpose::kGenerator);
  constexpr int kNodes = 6;
  for (int trial = 0; trial < 100; ++trial) {
    const Batches batches = RandomBatches(
        random, kNodes, static_cast<int64_t>(1 + random.Below(8)), trial % 2);
    for (int64_t slots = 0; slots <= kNodes + 1; ++slots) {
      for (const bool fill : {false, true}) {
        SCOPED_TRACE(
            absl::StrCat("trial ", trial, ", ", slots, " slots, fill ", fill));
        const Options options = MakeOptions(kNodes, slots);
        Recorder plan;
        const Totals totals = PlanAll(batches, options, fill, plan);
        EXPECT_EQ(totals.filled + totals.misses,
                  FewestReads(batches, kNodes, slots, /*start=*/0));
        EXPECT_EQ(totals.uncertified, 0);
      }
    }
  }
}

// Any future may follow a plan whose trace is not complete: a cache that knows
// it all along saves at most the uncertified reads.
TEST_F(OptimalCacheTest, AnyFutureSavesAtMostTheUncertifiedReads) {
  RandomStream random(3, RandomPurpose::kGenerator);
  constexpr int kNodes = 5;
  int64_t saved = 0;
  int64_t certified = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(absl::StrCat("trial ", trial));
    const Options options =
        MakeOptions(kNodes, static_cast<int64_t>(1 + random.Below(kNodes)),
                    static_cast<int64_t>(trial % 2 * random.Below(4)));
    const int64_t capacity = OptimalCache::Capacity(options);
    // Some state to begin with.
    CacheSlots slots = OptimalCache::FreeSlots(options);
    Recorder ignored;
    Plan(RandomBatches(random, kNodes, 3, false), {.end = 2}, options, slots,
         ignored);
    const uint32_t start = Contents(slots);

    const Batches known = RandomBatches(
        random, kNodes, static_cast<int64_t>(1 + random.Below(6)), false);
    const auto end = static_cast<int64_t>(1 + random.Below(known.size()));
    Recorder plan;
    const Totals totals =
        Plan(known, {.end = end, .fill = trial % 3 == 0}, options, slots, plan);
    for (int future = 0; future < 10; ++future) {
      Batches whole = known;
      for (auto& batch : RandomBatches(
               random, kNodes, static_cast<int64_t>(random.Below(6)), false)) {
        whole.push_back(std::move(batch));
      }
      const int64_t fewest = FewestReads(whole, kNodes, capacity, start);
      const int64_t reads = totals.filled + totals.misses +
                            FewestReads(Slice(whole, end, std::ssize(whole)),
                                        kNodes, capacity, Contents(slots));
      EXPECT_GE(reads, fewest);
      EXPECT_LE(reads, fewest + totals.uncertified);
      saved += reads - fewest;
      certified += totals.uncertified == 0;
    }
  }
  EXPECT_GT(saved, 0);
  EXPECT_GT(certified, 0);
}

// The same for a job of several plans.
TEST_F(OptimalCacheTest, AJobReadsAtMostTheUncertifiedRowsMore) {
  RandomStream random(4, RandomPurpose::kGenerator);
  constexpr int kNodes = 6;
  int64_t more = 0;
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(absl::StrCat("trial ", trial));
    const Batches batches = RandomBatches(random, kNodes, 12, false);
    const Options options =
        MakeOptions(kNodes, static_cast<int64_t>(1 + random.Below(kNodes)),
                    static_cast<int64_t>(trial % 2 * random.Below(4)));
    CacheSlots slots = OptimalCache::FreeSlots(options);
    int64_t reads = 0;
    int64_t uncertified = 0;
    for (int64_t begin = 0; begin < 12; begin += 3) {
      Recorder plan;
      const Totals totals =
          Plan(Slice(batches, begin, std::min<int64_t>(begin + 4, 12)),
               {.end = 3, .complete = begin + 3 == 12, .fill = begin == 0},
               options, slots, plan);
      reads += totals.filled + totals.misses;
      uncertified += totals.uncertified;
    }
    const int64_t fewest =
        FewestReads(batches, kNodes, OptimalCache::Capacity(options), 0);
    EXPECT_LE(reads, fewest + uncertified);
    more += reads - fewest;
  }
  EXPECT_GT(more, 0);
}

// The rows of the second batch are all unused so far: those with the smallest
// numbers fill what the first batch leaves.
TEST_F(OptimalCacheTest, FillsWithTheRowsNeededFirst) {
  Recorder plan;
  PlanAll({{9, 7}, {5, 8, 2, 7}, {5, 8, 2, 9}}, MakeOptions(10, 4),
          /*fill=*/true, plan);
  EXPECT_EQ(plan.filled, (std::vector<Filled>{{2, 0}, {5, 1}, {7, 2}, {9, 3}}));
  EXPECT_EQ(plan.batches[0],
            (PlannedBatch{.addresses = {3, 2}, .reads = {}, .entries = {}}));
  // 8 is needed again and takes the place of 7, which is not.
  EXPECT_EQ(plan.batches[1], (PlannedBatch{.addresses = {1, 4, 0, 2},
                                           .reads = {8},
                                           .entries = {{0, 2}},
                                           .drops = {2}}));
  EXPECT_EQ(plan.batches[2].addresses, (std::vector<uint32_t>{1, 2, 0, 3}));
}

TEST_F(OptimalCacheTest, FillsInSeveralCalls) {
  constexpr int64_t kRows = OptimalCache::kFillRows + 10;
  std::vector<NodeId> all(kRows + 1);
  for (NodeId node = 0; node <= kRows; ++node) all[node] = kRows - node;
  Recorder plan;
  const Batches batches = {all};
  const Options options = MakeOptions(kRows + 1, kRows);
  EXPECT_EQ(PlanAll(batches, options, /*fill=*/true, plan).filled, kRows);
  EXPECT_EQ(plan.fill_calls, 2);
  Replay(options).Execute(batches, plan);
  EXPECT_EQ(plan.batches[0].reads, (std::vector<uint32_t>{kRows}));
}

TEST_F(OptimalCacheTest, WhatIsNotNeededAgainEntersOnlyIfMoreMayFollow) {
  const Options options = MakeOptions(3, 2);
  Recorder complete;
  EXPECT_EQ(PlanAll({{0}, {1}, {2}}, options, false, complete).entered, 0);

  CacheSlots slots = OptimalCache::FreeSlots(options);
  Recorder plan;
  const Totals totals = Plan({{0}, {1}, {2}}, {.end = 3}, options, slots, plan);
  EXPECT_EQ(slots.nodes, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(totals.entered, 2);
  EXPECT_EQ(totals.uncertified, 1) << "2, instead of which 0 or 1 stays";
}

// 2 is known to be needed and takes the place of a row of which nothing is
// known; only while another such row stays may that be the wrong one.
TEST_F(OptimalCacheTest, DropsAreCertainOnceAllThatStaysIsKnown) {
  const Options options = MakeOptions(5, 2);
  CacheSlots slots = OptimalCache::FreeSlots(options);
  Recorder first;
  const Totals unknown =
      Plan({{0, 1}, {2}, {2}}, {.end = 2}, options, slots, first);
  EXPECT_EQ(unknown.uncertified, 1);
  Recorder second;
  const Totals known = Plan({{3}, {2, 3}}, {.end = 1}, options, slots, second);
  EXPECT_EQ(known.uncertified, 0);
}

TEST_F(OptimalCacheTest, RowsBypassWhenAllSlotsWereReadLately) {
  const Options options = MakeOptions(8, 2, /*reuse_distance=*/3);
  EXPECT_EQ(OptimalCache::Capacity(options), 1);
  const Batches batches = {{0}, {0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4}};
  Recorder plan;
  const Totals totals = PlanAll(batches, options, false, plan);
  Replay(options).Execute(batches, plan);
  // 0 enters slot 0, which batches 1 and 2 read; 1 enters slot 1, which batch 3
  // reads; then slots 0 and 1 cool until batches 5 and 6, so that 2 bypasses.
  // 3 bypasses, too; 4 enters slot 0.
  std::vector<std::vector<uint32_t>> entering;
  for (const PlannedBatch& batch : plan.batches) {
    entering.emplace_back();
    for (const Entry& entry : batch.entries) {
      entering.back().push_back(batch.reads[entry.read]);
    }
  }
  EXPECT_EQ(entering, (std::vector<std::vector<uint32_t>>{
                          {0}, {}, {1}, {}, {}, {4}, {}}));
  EXPECT_EQ(totals.uncertified, 2);
}

TEST_F(OptimalCacheTest, CapacityLeavesSlotsToCool) {
  const std::vector<std::pair<int64_t, int64_t>> capacities = {
      {0, 0}, {1, 1}, {2, 1}, {15, 14}, {16, 15}, {1000, 937}};
  for (const auto& [slots, capacity] : capacities) {
    EXPECT_EQ(OptimalCache::Capacity(MakeOptions(1001, slots)), slots);
    EXPECT_EQ(OptimalCache::Capacity(MakeOptions(1001, slots, 8)), capacity);
    // A slot for each node.
    EXPECT_EQ(OptimalCache::Capacity(MakeOptions(slots, slots, 8)), slots);
  }
}

TEST_F(OptimalCacheTest, WithASlotForEachNodeEachIsReadOnce) {
  RandomStream random(7, RandomPurpose::kGenerator);
  for (const int64_t slots : {40, 41}) {
    const Options options = MakeOptions(40, slots, /*reuse_distance=*/8);
    const Batches batches = RandomBatches(random, 40, 30, /*skew=*/false);
    std::set<NodeId> needed;
    for (const auto& batch : batches) needed.insert(batch.begin(), batch.end());
    Recorder plan;
    CacheSlots state = OptimalCache::FreeSlots(options);
    // Whatever follows.
    const Totals totals =
        Plan(batches, {.end = std::ssize(batches)}, options, state, plan);
    Replay(options).Execute(batches, plan);
    EXPECT_EQ(totals.misses, std::ssize(needed));
    EXPECT_EQ(totals.uncertified, 0);
  }
}

TEST_F(OptimalCacheTest, ATraceOfNothing) {
  for (const Batches& batches : {Batches(), Batches(3)}) {
    Recorder plan;
    const Totals totals = PlanAll(batches, MakeOptions(4, 2, 1), true, plan);
    EXPECT_EQ(totals, Totals());
    EXPECT_EQ(plan.batches.size(), batches.size());
  }
  Recorder plan;
  PlanAll({{}}, MakeOptions(0, 0), true, plan);
  EXPECT_EQ(plan.batches, std::vector<PlannedBatch>(1));
}

TEST_F(OptimalCacheTest, RefusesWhatIsOutOfRange) {
  const Options options = MakeOptions(5, 2, 3);
  const auto plan = [&](const Options& with, CacheSlots slots,
                        const Batches& batches, int64_t end) {
    VectorTrace trace(batches);
    Recorder recorder;
    return OptimalCache::Plan(posix_, trace, end, false, false, with, slots,
                              recorder, {})
        .status();
  };
  const CacheSlots free = OptimalCache::FreeSlots(options);
  ASSERT_TRUE(plan(options, free, {{4, 3}}, 1).ok());
  for (const NodeId node : {NodeId{5}, NodeId{-1}, NodeId{1} << 32}) {
    for (const int64_t end : {0, 1}) {
      const absl::Status status = plan(options, free, {{0, 1}, {2, node}}, end);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(node)));
    }
  }
  const std::vector<std::tuple<Options, CacheSlots, Batches, int64_t>> bad = {
      {options, free, {{1, 3, 1}}, 1},
      {options, free, {{1}}, 2},
      {options, free, {{1}}, -1},
      {options, {{0, 0}, {3, 3}}, {{1}}, 1},
      {options, {{0, 5}, {3, 3}}, {{1}}, 1},
      {options, {{0, 1}, {3, 3}}, {{1}}, 1},  // More than the capacity.
      {options, {{0, CacheSlots::kFree}, {3, 4}}, {{1}}, 1},
      {options, {{0}, {3, 3}}, {{1}}, 1},
      {options, {{0, CacheSlots::kFree}, {3}}, {{1}}, 1},
      {MakeOptions(-1, 2, 3), free, {}, 0},
      {MakeOptions(UINT32_MAX, 2, 3), free, {}, 0},
      {MakeOptions(5, -2, 3), free, {}, 0},
      {MakeOptions(5, UINT32_MAX, 3), free, {}, 0},
      {MakeOptions(5, 2, -1), free, {}, 0},
      {MakeOptions(5, 2, UINT16_MAX + 1), free, {}, 0},
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    const auto& [with, slots, batches, end] = bad[i];
    const absl::Status status = plan(with, slots, batches, end);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << ": " << status;
  }
}

class OptimalCacheErrorTest : public OptimalCacheTest {
 protected:
  // Plans the first two of three batches, after some filling.
  absl::StatusOr<Totals> PlanExample(VectorTrace& trace, Recorder& recorder) {
    const Options options = MakeOptions(9, 2);
    CacheSlots slots = OptimalCache::FreeSlots(options);
    return OptimalCache::Plan(faulty_, trace, /*end=*/2, /*complete=*/true,
                              /*fill=*/true, options, slots, recorder,
                              trace.stop_token());
  }

  absl::StatusOr<Totals> PlanExample() {
    VectorTrace trace(example_);
    Recorder recorder;
    return PlanExample(trace, recorder);
  }

  void ExpectNoFile() {
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
  }

  const Batches example_ = {{0, 1, 7}, {1, 2}, {0, 2}};
};

TEST_F(OptimalCacheErrorTest, ReturnsTheErrorsOfTraceAndSink) {
  for (int64_t load = 1; load <= 5; ++load) {
    VectorTrace trace(example_);
    trace.FailAt(load);
    Recorder recorder;
    EXPECT_TRUE(absl::IsDataLoss(PlanExample(trace, recorder).status()));
    ExpectNoFile();
  }
  VectorTrace trace(example_);
  Recorder at_batch;
  at_batch.failing_batch = 1;
  EXPECT_TRUE(absl::IsResourceExhausted(PlanExample(trace, at_batch).status()));
  Recorder at_fill;
  at_fill.fails_fill = true;
  EXPECT_TRUE(absl::IsResourceExhausted(PlanExample(trace, at_fill).status()));
  ExpectNoFile();
}

TEST_F(OptimalCacheErrorTest, StopsBetweenTwoBatches) {
  for (int64_t load = 1; load <= 4; ++load) {
    VectorTrace trace(example_);
    trace.StopAt(load);
    Recorder recorder;
    EXPECT_TRUE(absl::IsCancelled(PlanExample(trace, recorder).status()));
    EXPECT_EQ(trace.loads(), load);
    ExpectNoFile();
  }
}

TEST_F(OptimalCacheErrorTest, AnyFailureOfTheScratchFileIsReturned) {
  for (const io::Operation operation :
       {io::Operation::kCreate, io::Operation::kWrite, io::Operation::kClose,
        io::Operation::kOpenForRead, io::Operation::kRead}) {
    int64_t nth = 1;
    for (;; ++nth) {
      faulty_.Inject({.nth = nth, .only = operation});
      const absl::Status status = PlanExample().status();
      ExpectNoFile();
      if (faulty_.hits() == 0) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    }
    EXPECT_GT(nth, 1);
  }
}

TEST_F(OptimalCacheErrorTest, AFullDiskLeavesNothing) {
  faulty_.LimitSpace(20);
  const absl::Status status = PlanExample().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  ExpectNoFile();
}

TEST_F(OptimalCacheErrorTest, DamageOfTheScratchFileIsNamedByFileAndOffset) {
  // Batch 1 has bytes 0 to 12, batch 0 those behind.
  for (const auto& [nth, offset] : {std::pair(1, 12), std::pair(2, 0)}) {
    faulty_.Inject({.nth = nth,
                    .for_good = true,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const absl::Status status = PlanExample().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), path_)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("at byte ", offset, " ")))
        << status;
  }
  faulty_.Inject(
      {.effect = io::Effect::kForgetWrite, .only = io::Operation::kWrite});
  EXPECT_TRUE(absl::IsDataLoss(PlanExample().status()));
  EXPECT_EQ(faulty_.hits(), 1);
  ExpectNoFile();
}

TEST_F(OptimalCacheErrorTest, DamageOnTheWayIsReadOnceMore) {
  const Totals totals = *PlanExample();
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  EXPECT_EQ(*PlanExample(), totals);
  EXPECT_EQ(faulty_.hits(), 1);
}

TEST_F(OptimalCacheTest, MemoryIsThatOfItsParts) {
  constexpr uint64_t kFixed = 4 << 20;
  EXPECT_EQ(OptimalCache::MemoryBytes(800, 10, 4, 5),
            3200u + 150 + 240 + 72 + kFixed);
}

}  // namespace
}  // namespace hearth::plan
