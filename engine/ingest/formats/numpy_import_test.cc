#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/formats/numpy_format_fixture.h"
#include "engine/io/testing/faults.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- Memory, progress, cancellation

/// Replaces the folder's graph by a larger one with hubs; returns its
/// in-neighbors.
std::vector<std::vector<int64_t>> WriteLargeGraph(store::NumpyFolder& folder,
                                                  int64_t num_nodes,
                                                  int64_t num_edges) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<int64_t> sources, destinations;
  for (int64_t i = 0; i < num_edges; ++i) {
    sources.push_back(static_cast<int64_t>(random.Below(num_nodes)));
    // A third of the edges ends in one node.
    const bool hub = random.Below(3) == 0;
    destinations.push_back(hub ? num_nodes / 2
                               : static_cast<int64_t>(random.Below(num_nodes)));
  }
  const std::string n = std::to_string(num_nodes);
  folder.Write("edge_index.npy",
               {.descr = "<i8",
                .shape = "(2, " + std::to_string(num_edges) + ")",
                .data = store::Raw(sources) + store::Raw(destinations)});
  folder.Write("node_feat.npy",
               {.shape = "(" + n + ", 2)",
                .data = store::Raw(std::vector<float>(2 * num_nodes, 0.5f))});
  folder.Write("node_label.npy", {.descr = "|i1",
                                  .shape = "(" + n + ",)",
                                  .data = std::string(num_nodes, '\1')});
  return InNeighbors(num_nodes, sources, destinations);
}

TEST_F(NumpyFormatTest, TheMemoryLimitChangesNothingButTheWay) {
  const auto expected = WriteLargeGraph(folder_, 70'000, 400'000);
  std::set<std::string> fingerprints;
  for (const uint64_t limit : {uint64_t{1} << 20, uint64_t{256} << 20}) {
    const auto dataset = ImportAndOpen({.memory_limit_bytes = limit});
    EXPECT_EQ(InNeighbors(
                  (*dataset->LoadTopology(store::Residency::kMemory))->view()),
              expected);
    fingerprints.insert(dataset->manifest().fingerprint);
    EXPECT_THAT(*files_.List(folder_.Destination()),
                testing::Not(testing::Contains(HasSubstr("scratch"))));
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
  EXPECT_EQ(fingerprints.size(), 1u);
}

TEST_F(NumpyFormatTest, ALimitThatIsTooLowIsRefusedWithNumbers) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      Import({.memory_limit_bytes = (1 << 20) - 1}).status()));
  folder_.Write("node_feat.npy", {.shape = "(6, 100000)",
                                  .data = std::string(6 * 400'000, '\0')});
  const absl::Status status = Import({.memory_limit_bytes = 1 << 20}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node_feat.npy: a row has 390.6 KiB"));
  EXPECT_TRUE(NothingIsThere());
}

TEST_F(NumpyFormatTest, ProgressGrowsToTheTotalOfEachPhase) {
  WriteLargeGraph(folder_, 70'000, 400'000);
  std::map<std::string, std::pair<uint64_t, uint64_t>> last;
  std::vector<std::string> order;
  progress_ = [&](absl::string_view phase, uint64_t done, uint64_t total) {
    auto [entry, is_new] =
        last.insert({std::string(phase), std::pair(uint64_t{0}, total)});
    if (is_new) order.push_back(std::string(phase));
    EXPECT_GT(done, entry->second.first);
    EXPECT_EQ(total, entry->second.second);
    entry->second.first = done;
  };
  ASSERT_TRUE(Import({.memory_limit_bytes = 1 << 20}).ok());
  EXPECT_THAT(order, ElementsAre("labels", "checking", "edges", "features",
                                 "counting"));
  for (const auto& [phase, bytes] : last) {
    EXPECT_EQ(bytes.first, bytes.second) << phase;
  }
}

TEST_F(NumpyFormatTest, CancelledInAnyPhaseLeavesNothing) {
  WriteLargeGraph(folder_, 70'000, 400'000);
  for (const char* wanted :
       {"labels", "checking", "edges", "features", "counting"}) {
    stop_ = std::stop_source();
    progress_ = [&](absl::string_view phase, uint64_t, uint64_t) {
      if (phase == wanted) stop_.request_stop();
    };
    const absl::Status status =
        Import({.memory_limit_bytes = 1 << 20}).status();
    // The only block of a phase may be its last.
    EXPECT_TRUE(absl::IsCancelled(status)) << wanted << status;
    EXPECT_TRUE(NothingIsThere());
  }
}

// ---- Where it is written

TEST_F(NumpyFormatTest, WhatIsThereStays) {
  ASSERT_TRUE(files_.CreateDirectory(folder_.Destination()).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Import().status()));
  EXPECT_TRUE(files_.List(folder_.Destination())->empty());
}

TEST_F(NumpyFormatTest, ALeftoverIsReplaced) {
  const std::string leftover = folder_.Destination() + ".tmp";
  ASSERT_TRUE(files_.CreateDirectory(leftover).ok());
  ASSERT_TRUE((*files_.Create(leftover + "/old"))->Close().ok());
  ExpectUsualGraph(*ImportAndOpen());
  EXPECT_THAT(*files_.List(folder_.Destination()),
              testing::Not(testing::Contains(std::string("old"))));
}

TEST_F(NumpyFormatTest, TheSourceIsNeverTakenForALeftover) {
  const std::string leftover = folder_.Destination() + ".tmp";
  ASSERT_TRUE(files_.Rename(folder_.path(), leftover).ok());
  ImportOptions options;
  options.source = leftover;
  options.name = "test";
  options.destination = folder_.Destination();
  const absl::Status status =
      ImportDataset(files_, {"numpy"}, options, nullptr, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(files_.List(leftover)->size(), 6u);
}

TEST_F(NumpyFormatTest, AFullDiskIsRefusedBeforeTheStart) {
  files_.LimitSpace(1000);
  const absl::Status status = Import().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1000 (1000 B) are free"));
  for (const auto& call : files_.calls()) {
    EXPECT_NE(call.operation, io::Operation::kCreateDirectory);
  }
  files_.Clear();
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, ADiskThatFillsUpMeanwhileLeavesNothing) {
  files_.Inject({.nth = 12,
                 .for_good = true,
                 .effect = io::Effect::kTearWrite,
                 .status = absl::ResourceExhaustedError("no space"),
                 .only = io::Operation::kWrite});
  EXPECT_TRUE(absl::IsResourceExhausted(Import().status()));
  EXPECT_TRUE(NothingIsThere());
  files_.Clear();
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, NamesThatAreNotTextAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Import({.name = "\xff\xfe"}).status()));
  EXPECT_TRUE(NothingIsThere());
}

TEST_F(NumpyFormatTest, EverythingIsDurableBeforeItIsNamed) {
  ASSERT_TRUE(Import().ok());
  const std::string folder = folder_.Destination() + ".tmp";
  std::set<std::string> unsynced;
  bool renamed = false;
  for (const auto& call : files_.calls()) {
    switch (call.operation) {
      case io::Operation::kCreate:
      case io::Operation::kWrite:
        EXPECT_FALSE(renamed);
        unsynced.insert(call.path);
        unsynced.insert(folder);
        break;
      case io::Operation::kSync:
      case io::Operation::kSyncDirectory:
        unsynced.erase(call.path);
        break;
      case io::Operation::kRename:
        if (call.path != folder_.Destination()) break;
        EXPECT_THAT(unsynced, testing::IsEmpty());
        renamed = true;
        break;
      default:
        break;
    }
  }
  EXPECT_TRUE(renamed);
  EXPECT_EQ(files_.calls().back().operation, io::Operation::kSyncDirectory);
  EXPECT_EQ(files_.calls().back().path, folder_.scratch().path());
}

// ---- Every fault

struct FaultCase {
  io::Effect effect;
  std::optional<io::Operation> only;
  bool in_place;
};

class ImportFaultTest : public NumpyFormatTest,
                        public testing::WithParamInterface<FaultCase> {};

TEST_P(ImportFaultTest, AnyFaultLeavesNothingAndTheNextImportWorks) {
  const Choices options = {.in_place = GetParam().in_place};
  int64_t nth = 1;
  for (bool hit = true; hit; ++nth) {
    SCOPED_TRACE(nth);
    files_.Inject(
        {.nth = nth, .effect = GetParam().effect, .only = GetParam().only});
    const absl::Status status = Import(options).status();
    hit = files_.hits() > 0;
    files_.Clear();
    if (status.ok()) {
      // Not hit, or hit where nothing depends on it.
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
      continue;
    }
    ASSERT_TRUE(hit);
    // The rename happened but was reported as failed: the dataset must be
    // whole.
    if (GetParam().effect == io::Effect::kLoseReply && !NothingIsThere()) {
      ASSERT_TRUE(store::Dataset::Open(files_, folder_.Destination()).ok());
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
    }
    ASSERT_TRUE(NothingIsThere()) << status;
  }
  EXPECT_GT(nth, 20);
  ExpectUsualGraph(*ImportAndOpen(options));
}

TEST_F(NumpyFormatTest, AFaultForGoodLeavesAllOrNothing) {
  int64_t nth = 1;
  for (bool hit = true; hit; ++nth) {
    SCOPED_TRACE(nth);
    files_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = Import().status();
    hit = files_.hits() > 0;
    EXPECT_NE(status.ok(), hit);
    files_.Clear();
    if (files_.Stat(folder_.Destination()).ok()) {
      const auto dataset = store::Dataset::Open(files_, folder_.Destination());
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
    }
  }
  ExpectUsualGraph(*ImportAndOpen());
}

INSTANTIATE_TEST_SUITE_P(
    Effects, ImportFaultTest,
    testing::Values(FaultCase{io::Effect::kFail, std::nullopt, false},
                    FaultCase{io::Effect::kFail, io::Operation::kRead, true},
                    FaultCase{io::Effect::kTearWrite, io::Operation::kWrite,
                              false},
                    FaultCase{io::Effect::kLoseReply, std::nullopt, true}));

}  // namespace
}  // namespace hearth::ingest
