#include "engine/strategy/superbatch/changeset.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

using store::NodeId;

// The example of figure 12: node 3 is needed in batches 0, 2 and 4.
const std::vector<std::vector<NodeId>>& Example() {
  static const auto* const batches = new std::vector<std::vector<NodeId>>{
      {3, 4}, {2, 4}, {0, 3}, {0, 1}, {1, 3}};
  return *batches;
}

AccessTable Build(const std::vector<std::vector<NodeId>>& batches,
                  int64_t num_nodes) {
  AccessTable table = *AccessTable::Make(num_nodes);
  for (const auto& batch : batches) EXPECT_TRUE(table.Count(batch).ok());
  EXPECT_TRUE(table.BeginPlacing().ok());
  uint32_t number = 0;
  for (const auto& batch : batches) table.Place(number++, batch);
  table.EndPlacing();
  return table;
}

std::vector<uint32_t> Advance(AccessTable& table,
                              const std::vector<NodeId>& nodes) {
  std::vector<uint32_t> next(nodes.size());
  table.Advance(nodes, absl::MakeSpan(next));
  return next;
}

TEST(AccessTableTest, KnowsTheFirstAndEveryNextBatch) {
  AccessTable table = Build(Example(), 5);
  EXPECT_EQ(table.num_accesses(), 10);
  const std::vector<uint32_t> first = {2, 3, 1, 0, 0};
  for (NodeId node = 0; node < 5; ++node) {
    EXPECT_EQ(table.First(node), first[node]) << node;
  }
  constexpr uint32_t kNever = AccessTable::kNever;
  const std::vector<std::vector<uint32_t>> next = {
      {2, 1}, {kNever, kNever}, {3, 4}, {kNever, 4}, {kNever, kNever}};
  for (size_t i = 0; i < Example().size(); ++i) {
    EXPECT_EQ(Advance(table, Example()[i]), next[i]) << "batch " << i;
  }
}

TEST(AccessTableTest, NodesThatAreNeverNeededAreSkipped) {
  AccessTable table = Build({{2}, {5}, {2}}, 8);
  EXPECT_EQ(table.First(2), 0u);
  EXPECT_EQ(table.First(5), 1u);
  EXPECT_EQ(Advance(table, {2}), std::vector<uint32_t>{2});
  EXPECT_EQ(Advance(table, {5}), std::vector<uint32_t>{AccessTable::kNever});
  EXPECT_EQ(Advance(table, {2}), std::vector<uint32_t>{AccessTable::kNever});
}

TEST(AccessTableTest, BatchesLongerThanWhatIsAskedForAhead) {
  std::vector<NodeId> all;
  for (NodeId node = 0; node < 100; ++node) all.push_back(99 - node);
  AccessTable table = Build({all, all}, 100);
  EXPECT_EQ(Advance(table, all), std::vector<uint32_t>(100, 1));
  EXPECT_EQ(Advance(table, all),
            std::vector<uint32_t>(100, AccessTable::kNever));
}

TEST(AccessTableTest, WithoutNodesOrBatches) {
  AccessTable table = Build({}, 0);
  EXPECT_EQ(table.num_accesses(), 0);
  EXPECT_EQ(Build({{}, {}}, 3).num_accesses(), 0);
}

TEST(AccessTableTest, RefusesNodesOutOfRange) {
  AccessTable table = *AccessTable::Make(3);
  EXPECT_TRUE(absl::IsInvalidArgument(table.Count({0, 3})));
  EXPECT_TRUE(absl::IsInvalidArgument(table.Count({-1})));
  EXPECT_EQ(table.num_accesses(), 0) << "nothing of a bad batch counts";
}

using plan::VectorTrace;
using Batches = VectorTrace::Batches;

struct Plan final : public ChangesetSink {
  std::vector<NodeId> initial;
  std::vector<Changeset> updates;
  ChangesetTotals totals;
  int64_t failing_update = -1;

  absl::Status Initialize(absl::Span<const NodeId> ids) override {
    initial.assign(ids.begin(), ids.end());
    return absl::OkStatus();
  }
  absl::Status Update(int64_t batch, const Changeset& changeset) override {
    if (batch == failing_update) return absl::ResourceExhaustedError("full");
    EXPECT_EQ(batch, static_cast<int64_t>(updates.size()));
    updates.push_back(changeset);
    return absl::OkStatus();
  }
};

Plan MakePlan(const Batches& batches, const CacheShape& shape) {
  VectorTrace trace(batches);
  Plan plan;
  const auto totals = PlanChangesets(trace, shape, plan, {});
  EXPECT_TRUE(totals.ok()) << totals.status();
  if (totals.ok()) plan.totals = *totals;
  return plan;
}

// Belady's choice after one batch, written plainly: rows inside and rows of the
// batch, sorted by next use, rows inside first, then by number.
std::set<NodeId> Keep(const Batches& batches, size_t batch,
                      const std::set<NodeId>& inside, size_t capacity) {
  using Rank = std::tuple<size_t, bool, NodeId>;
  std::set<Rank> ranks;
  const auto add = [&](NodeId node) {
    size_t next = batch + 1;
    while (next < batches.size() &&
           std::count(batches[next].begin(), batches[next].end(), node) == 0) {
      ++next;
    }
    if (next == batches.size() && inside.count(node) == 0) return;
    ranks.insert({next, inside.count(node) == 0, node});
  };
  for (const NodeId node : inside) add(node);
  for (const NodeId node : batches[batch]) add(node);
  std::set<NodeId> kept;
  for (const Rank& rank : ranks) {
    if (kept.size() == capacity) break;
    kept.insert(std::get<NodeId>(rank));
  }
  return kept;
}

// Misses of Belady's cache if it starts empty and nothing is prefetched.
int64_t BeladyMisses(const Batches& batches, size_t capacity) {
  std::set<NodeId> inside;
  int64_t misses = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    for (const NodeId node : batches[i]) misses += inside.count(node) == 0;
    inside = Keep(batches, i, inside, capacity);
  }
  return misses;
}

// The fewest reads of any sequence of cache contents: tries all. Sets of nodes
// are bits.
int64_t FewestReads(const Batches& batches, int num_nodes, int capacity) {
  std::map<uint32_t, int64_t> reads = {{0, 0}};
  for (const std::vector<NodeId>& batch : batches) {
    uint32_t needed = 0;
    for (const NodeId node : batch) needed |= 1u << node;
    std::map<uint32_t, int64_t> after;
    for (const auto& [inside, so_far] : reads) {
      const int64_t total = so_far + __builtin_popcount(needed & ~inside);
      const uint32_t candidates = inside | needed;
      for (uint32_t kept = 0; kept < 1u << num_nodes; ++kept) {
        if ((kept & ~candidates) != 0) continue;
        if (__builtin_popcount(kept) > capacity) continue;
        const auto [it, added] = after.try_emplace(kept, total);
        if (!added) it->second = std::min(it->second, total);
      }
    }
    reads = std::move(after);
  }
  int64_t fewest = INT64_MAX;
  for (const auto& [inside, total] : reads) fewest = std::min(fewest, total);
  return fewest;
}

// Executes a plan, expects that it is possible, and returns its reads.
int64_t Execute(const Batches& batches, const Plan& plan, size_t capacity) {
  std::set<NodeId> inside(plan.initial.begin(), plan.initial.end());
  EXPECT_EQ(inside.size(), plan.initial.size()) << "twice inside";
  EXPECT_LE(inside.size(), capacity);
  EXPECT_EQ(plan.updates.size(), batches.size());
  auto reads = static_cast<int64_t>(inside.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    for (const NodeId node : batches[i]) reads += inside.count(node) == 0;
    const std::set<NodeId> expected = Keep(batches, i, inside, capacity);
    const Changeset& update = plan.updates[i];
    EXPECT_EQ(update.in_ids.size(), update.out_ids.size());
    EXPECT_EQ(update.in_ids.size(), update.in_positions.size());
    for (const NodeId node : update.out_ids) EXPECT_EQ(inside.erase(node), 1u);
    for (size_t j = 0; j < update.in_ids.size(); ++j) {
      EXPECT_TRUE(inside.insert(update.in_ids[j]).second);
      EXPECT_EQ(batches[i][update.in_positions[j]], update.in_ids[j]);
    }
    EXPECT_EQ(inside, expected) << "after batch " << i;
  }
  return reads;
}

// Batches of distinct nodes; with `skew`, small numbers are far more frequent.
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
      NodeId node = static_cast<NodeId>(random.Below(num_nodes));
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

TEST(ChangesetTest, IsBeladysCacheOnRandomTraces) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 400; ++trial) {
    const auto num_nodes = static_cast<int64_t>(1 + random.Below(30));
    const Batches batches = RandomBatches(
        random, num_nodes, static_cast<int64_t>(random.Below(16)), trial % 2);
    for (const int64_t capacity : {int64_t{0}, int64_t{1}, num_nodes / 3,
                                   num_nodes / 2, num_nodes, 2 * num_nodes}) {
      SCOPED_TRACE(testing::Message()
                   << "trial " << trial << ", capacity " << capacity);
      const Plan plan =
          MakePlan(batches, {.num_nodes = num_nodes, .capacity = capacity});
      const int64_t reads =
          Execute(batches, plan, static_cast<size_t>(capacity));
      EXPECT_EQ(reads, BeladyMisses(batches, static_cast<size_t>(capacity)));
      EXPECT_EQ(plan.totals.filled + plan.totals.missed, reads);
      EXPECT_EQ(plan.totals.filled, static_cast<int64_t>(plan.initial.size()));
    }
  }
}

TEST(ChangesetTest, NoSequenceOfCachesReadsLess) {
  RandomStream random(2, RandomPurpose::kGenerator);
  constexpr int kNodes = 6;
  for (int trial = 0; trial < 150; ++trial) {
    const Batches batches = RandomBatches(
        random, kNodes, static_cast<int64_t>(1 + random.Below(7)), trial % 2);
    for (int capacity = 0; capacity <= kNodes; ++capacity) {
      const ChangesetTotals totals =
          MakePlan(batches, {.num_nodes = kNodes, .capacity = capacity}).totals;
      EXPECT_EQ(totals.filled + totals.missed,
                FewestReads(batches, kNodes, capacity))
          << "trial " << trial << ", capacity " << capacity;
    }
  }
}

TEST(ChangesetTest, ATraceOfNothing) {
  for (const Batches& batches : {Batches(), Batches(3)}) {
    const Plan plan = MakePlan(batches, {.num_nodes = 4, .capacity = 2});
    EXPECT_TRUE(plan.initial.empty());
    EXPECT_EQ(plan.updates.size(), batches.size());
    EXPECT_EQ(plan.totals.needed, 0);
  }
  EXPECT_TRUE(MakePlan({{}}, {}).initial.empty()) << "no nodes at all";
}

TEST(ChangesetTest, AFullCacheOfAllReadsEachRowOnce) {
  const Plan plan =
      MakePlan({{3, 1}, {1, 0}, {0, 3}}, {.num_nodes = 4, .capacity = 4});
  EXPECT_EQ(plan.totals.filled, 3);
  EXPECT_EQ(plan.totals.missed, 0);
  EXPECT_EQ(plan.totals.needed, 6);
  for (const Changeset& update : plan.updates) {
    EXPECT_TRUE(update.in_ids.empty());
  }
}

// The rows of the second batch are all unused so far: those with the smallest
// numbers fill what the first batch leaves.
TEST(ChangesetTest, FillsWithTheRowsNeededFirst) {
  const Plan plan = MakePlan({{9, 7}, {5, 8, 2, 7}, {5, 8, 2, 9}},
                             {.num_nodes = 10, .capacity = 4});
  std::vector<NodeId> initial = plan.initial;
  std::sort(initial.begin(), initial.end());
  EXPECT_EQ(initial, (std::vector<NodeId>{2, 5, 7, 9}));
  // 8 is needed again and takes the place of 7, which is not.
  EXPECT_EQ(plan.updates[1].in_ids, (std::vector<NodeId>{8}));
  EXPECT_EQ(plan.updates[1].out_ids, (std::vector<NodeId>{7}));
  EXPECT_EQ(plan.updates[1].in_positions, (std::vector<int32_t>{1}));
}

// 1 and 2 are needed again at the same time: 1 is inside and stays.
TEST(ChangesetTest, TiesPreferWhatIsInside) {
  const Plan plan =
      MakePlan({{1}, {2}, {1, 2}}, {.num_nodes = 3, .capacity = 1});
  EXPECT_EQ(plan.initial, (std::vector<NodeId>{1}));
  for (const Changeset& update : plan.updates) {
    EXPECT_TRUE(update.in_ids.empty());
  }
  const Plan of_new_rows =
      MakePlan({{0}, {2, 1}, {1, 2}}, {.num_nodes = 3, .capacity = 1});
  EXPECT_EQ(of_new_rows.updates[1].in_ids, (std::vector<NodeId>{1}))
      << "of those outside, the smaller number";
}

TEST(ChangesetTest, WhatIsNotNeededAgainNeverEnters) {
  const Plan plan =
      MakePlan({{0}, {1}, {2}, {3}}, {.num_nodes = 4, .capacity = 1});
  EXPECT_EQ(plan.totals.missed, 3);
  for (const Changeset& update : plan.updates) {
    EXPECT_TRUE(update.in_ids.empty());
  }
}

TEST(ChangesetTest, RefusesNodesOutOfRangeAndBadShapes) {
  for (const NodeId node : {NodeId{5}, NodeId{-1}}) {
    VectorTrace trace({{0, 1}, {2, node}});
    Plan plan;
    const auto totals =
        PlanChangesets(trace, {.num_nodes = 5, .capacity = 2}, plan, {});
    EXPECT_TRUE(absl::IsInvalidArgument(totals.status())) << totals.status();
    EXPECT_NE(totals.status().message().find(std::to_string(node)),
              absl::string_view::npos);
  }
  VectorTrace trace({});
  Plan plan;
  EXPECT_TRUE(absl::IsInvalidArgument(
      PlanChangesets(trace, {.num_nodes = 5, .capacity = -1}, plan, {})
          .status()));
}

TEST(ChangesetTest, ReturnsTheErrorsOfTraceAndSink) {
  const Batches batches = {{0, 1}, {1, 2}, {0, 2}};
  for (int64_t load = 1; load <= 9; ++load) {
    VectorTrace trace(batches);
    trace.FailAt(load);
    Plan plan;
    EXPECT_TRUE(absl::IsDataLoss(
        PlanChangesets(trace, {.num_nodes = 3, .capacity = 1}, plan, {})
            .status()))
        << load;
  }
  VectorTrace trace(batches);
  Plan plan;
  plan.failing_update = 1;
  EXPECT_TRUE(absl::IsResourceExhausted(
      PlanChangesets(trace, {.num_nodes = 3, .capacity = 1}, plan, {})
          .status()));
}

TEST(ChangesetTest, StopsBetweenTwoBatches) {
  for (int64_t load = 1; load <= 8; ++load) {
    VectorTrace trace({{0, 1}, {1, 2}, {0, 2}});
    trace.StopAt(load);
    Plan plan;
    EXPECT_TRUE(
        absl::IsCancelled(PlanChangesets(trace, {.num_nodes = 3, .capacity = 1},
                                         plan, trace.stop_token())
                              .status()))
        << load;
  }
}

TEST(ChangesetTest, MemoryIsThatOfItsParts) {
  EXPECT_EQ(ChangesetMemoryBytes({.num_nodes = 800, .capacity = 10}, 100, 4, 5),
            6400u + 404 + 101 + 240 + 352 + 192);
  // A cache larger than the trace is not filled.
  EXPECT_EQ(
      ChangesetMemoryBytes({.num_nodes = 800, .capacity = 1 << 30}, 100, 4, 5),
      6400u + 404 + 101 + 2400 + 352 + 192);
}

using Offsets = std::vector<uint64_t>;

class ChangesetFileTest : public ::testing::Test {
 protected:
  ChangesetFileTest() : initial_({5, int64_t{1} << 47, 0}) {
    updates_.push_back({{1, 2}, {5, 0}, {7, 3}});
    updates_.push_back({});
    updates_.push_back({{9}, {1}, {0}});
  }

  absl::StatusOr<Offsets> Write(io::FileSystem& files) {
    auto writer = ChangesetFileWriter::Create(files, path_);
    if (!writer.ok()) return writer.status();
    absl::Status status = (*writer)->Initialize(initial_);
    for (size_t i = 0; status.ok() && i < updates_.size(); ++i) {
      status = (*writer)->Update(static_cast<int64_t>(i), updates_[i]);
    }
    if (!status.ok()) return status;
    return (*writer)->Finish();
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("changesets");
  const std::vector<NodeId> initial_;
  std::vector<Changeset> updates_;
};

TEST_F(ChangesetFileTest, EveryRecordComesBack) {
  const auto offsets = Write(posix_);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  ASSERT_EQ(offsets->size(), updates_.size() + 2);
  const auto reader = ChangesetFileReader::Open(posix_, path_, *offsets);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(*(*reader)->ReadInitial(), initial_);
  // Batches can be read in any order.
  for (const size_t i : {2, 0, 1}) {
    const auto update = (*reader)->ReadUpdate(static_cast<int64_t>(i));
    ASSERT_TRUE(update.ok()) << update.status();
    EXPECT_EQ(update->in_ids, updates_[i].in_ids);
    EXPECT_EQ(update->out_ids, updates_[i].out_ids);
    EXPECT_EQ(update->in_positions, updates_[i].in_positions);
  }
}

TEST_F(ChangesetFileTest, DamageIsNamedByFileAndOffset) {
  const Offsets offsets = *Write(posix_);
  std::string bent = *io::ReadWholeFile(posix_, path_, 1 << 20);
  bent[offsets[1] + 45] ^= 4;
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent).ok());
  const auto reader = *ChangesetFileReader::Open(posix_, path_, offsets);
  EXPECT_TRUE(reader->ReadInitial().ok());
  EXPECT_TRUE(reader->ReadUpdate(1).ok());
  const absl::Status status = reader->ReadUpdate(0).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(path_), absl::string_view::npos);
  EXPECT_NE(status.message().find(std::to_string(offsets[1])),
            absl::string_view::npos);
}

TEST_F(ChangesetFileTest, ARecordIsNotTakenForAnother) {
  updates_ = {updates_[0], updates_[0]};
  Offsets offsets = *Write(posix_);
  offsets.erase(offsets.begin() + 1);
  const auto reader = *ChangesetFileReader::Open(posix_, path_, offsets);
  EXPECT_TRUE(absl::IsDataLoss(reader->ReadUpdate(0).status()));
}

TEST_F(ChangesetFileTest, AFileOfAnotherSizeIsRefused) {
  const Offsets offsets = *Write(posix_);
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  ASSERT_TRUE(
      io::WriteFileAtomically(posix_, path_, whole.substr(0, whole.size() - 1))
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(
      ChangesetFileReader::Open(posix_, path_, offsets).status()));
}

TEST_F(ChangesetFileTest, DamageOnTheWayIsReadOnceMore) {
  const Offsets offsets = *Write(posix_);
  const auto reader = *ChangesetFileReader::Open(faulty_, path_, offsets);
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  EXPECT_EQ(*reader->ReadInitial(), initial_);
  EXPECT_EQ(faulty_.hits(), 1);
}

TEST_F(ChangesetFileTest, AnyFailureLeavesNothing) {
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const absl::Status status = Write(faulty_).status();
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status())) << nth;
  }
}

TEST_F(ChangesetFileTest, AFullDiskLeavesNothing) {
  faulty_.LimitSpace(100);
  const absl::Status status = Write(faulty_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
}

TEST_F(ChangesetFileTest, FailedReadsAreReturned) {
  const Offsets offsets = *Write(posix_);
  const auto reader = *ChangesetFileReader::Open(faulty_, path_, offsets);
  faulty_.Inject({.only = io::Operation::kRead});
  EXPECT_TRUE(absl::IsUnavailable(reader->ReadInitial().status()));
  faulty_.Inject({});
  EXPECT_TRUE(absl::IsUnavailable(
      ChangesetFileReader::Open(faulty_, path_, offsets).status()));
}

}  // namespace

}  // namespace hearth::strategy
