#include "engine/ingest/import/csc_builder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;

/// Edges in memory.
class VectorEdges final : public EdgeSource {
 public:
  VectorEdges(std::vector<int64_t> sources, std::vector<int64_t> destinations)
      : sources_(std::move(sources)), destinations_(std::move(destinations)) {}

  int64_t num_edges() const override {
    return static_cast<int64_t>(sources_.size());
  }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    if (first == 0) ++passes_;
    block.sources.assign(sources_.begin() + first,
                         sources_.begin() + first + count);
    block.destinations.assign(destinations_.begin() + first,
                              destinations_.begin() + first + count);
    return absl::OkStatus();
  }

  int passes() const { return passes_; }

 private:
  std::vector<int64_t> sources_;
  std::vector<int64_t> destinations_;
  int passes_ = 0;
};

struct Csc {
  std::vector<int64_t> indptr;
  std::vector<int64_t> indices;

  friend bool operator==(const Csc&, const Csc&) = default;
};

/// The definition of CSC.
Csc Naive(int64_t num_nodes, const std::vector<int64_t>& sources,
          const std::vector<int64_t>& destinations) {
  std::vector<std::vector<int64_t>> neighbors(num_nodes);
  for (size_t i = 0; i < sources.size(); ++i) {
    neighbors[destinations[i]].push_back(sources[i]);
  }
  Csc csc{{0}, {}};
  for (const auto& list : neighbors) {
    csc.indices.insert(csc.indices.end(), list.begin(), list.end());
    csc.indptr.push_back(static_cast<int64_t>(csc.indices.size()));
  }
  return csc;
}

class CscBuilderTest : public testing::Test {
 protected:
  absl::Status Build(EdgeSource& edges, int64_t num_nodes, uint64_t memory) {
    ImportContext context(files_, memory, scratch_.Path("scratch"), progress_,
                          {});
    return BuildCsc(context, edges, {num_nodes, num_nodes},
                    {scratch_.path(), "test", "edge"})
        .status();
  }

  template <typename T>
  std::vector<int64_t> ReadArray(const std::string& name) {
    const std::string bytes =
        *io::ReadWholeFile(files_, scratch_.Path(name), 1 << 30);
    const size_t data = bytes.find('\n') + 1;
    std::vector<int64_t> values;
    for (size_t at = data; at < bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      values.push_back(value);
    }
    return values;
  }

  Csc Result() {
    return {ReadArray<int64_t>("edge.indptr.npy"),
            ReadArray<int32_t>("edge.indices.npy")};
  }

  bool UsedScratch() {
    for (const auto& call : files_.calls()) {
      if (call.path == scratch_.Path(kScratchName)) return true;
    }
    return false;
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  ImportProgress progress_;
};

struct Graph {
  const char* name;
  int64_t num_nodes;
  int64_t num_edges;
  /// One edge in `hub` ends in node 1; 0 = none.
  uint64_t hub;
  /// Whether the edges need the scratch file within 1 MiB.
  bool scratch;
};

class CscGraphTest : public CscBuilderTest,
                     public testing::WithParamInterface<Graph> {};

TEST_P(CscGraphTest, IsSortedAsDefinedWhateverTheMemory) {
  const Graph& graph = GetParam();
  RandomStream random(3, RandomPurpose::kGenerator);
  std::vector<int64_t> sources, destinations;
  for (int64_t i = 0; i < graph.num_edges; ++i) {
    sources.push_back(static_cast<int64_t>(random.Below(graph.num_nodes)));
    const bool hub = graph.hub > 0 && random.Below(graph.hub) == 0;
    destinations.push_back(
        hub ? 1 : static_cast<int64_t>(random.Below(graph.num_nodes)));
  }
  const Csc expected = Naive(graph.num_nodes, sources, destinations);
  VectorEdges edges(sources, destinations);
  ASSERT_TRUE(Build(edges, graph.num_nodes, 64 * kMiB).ok());
  EXPECT_FALSE(UsedScratch());
  EXPECT_EQ(Result(), expected);
  ASSERT_TRUE(Build(edges, graph.num_nodes, kMiB).ok());
  EXPECT_EQ(UsedScratch(), graph.scratch);
  EXPECT_TRUE(Result() == expected);
  EXPECT_THAT(*files_.List(scratch_.path()),
              testing::Not(testing::Contains(std::string(kScratchName))));
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, CscGraphTest,
    testing::Values(Graph{"small", 10, 100, 0, false},
                    Graph{"one node", 1, 1000, 0, false},
                    Graph{"no edges", 100'000, 0, 0, false},
                    Graph{"many nodes", 300'000, 1000, 0, false},
                    Graph{"many edges", 1000, 500'000, 0, true},
                    Graph{"both", 100'000, 500'000, 0, true},
                    // More edges end in one node than memory holds.
                    Graph{"hub", 50'000, 600'000, 2, true},
                    Graph{"only a hub", 2, 300'000, 1, true}),
    [](const auto& param) {
      std::string name = param.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST_F(CscBuilderTest, KeepsTheOrderOfEqualEdges) {
  VectorEdges edges({5, 3, 5, 4, 3}, {0, 0, 0, 1, 0});
  ASSERT_TRUE(Build(edges, 6, kMiB).ok());
  EXPECT_THAT(Result().indices, ElementsAre(5, 3, 5, 3, 4));
}

TEST_F(CscBuilderTest, TooManyNodesForTheMemoryAreRefusedWithNumbers) {
  VectorEdges edges({0}, {0});
  const absl::Status status = Build(edges, int64_t{1} << 40, kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("256.0 KiB"));
}

TEST_F(CscBuilderTest, ReadsTheEdgesOnce) {
  std::vector<int64_t> nodes(300'000);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = static_cast<int64_t>(i * 7919 % 1000);
  }
  for (const uint64_t memory : {kMiB, 64 * kMiB}) {
    VectorEdges edges(nodes, nodes);
    ASSERT_TRUE(Build(edges, 1000, memory).ok());
    EXPECT_EQ(edges.passes(), 1);
  }
}

TEST_F(CscBuilderTest, ReadsOnAnotherThread) {
  class ObservedEdges final : public EdgeSource {
   public:
    int64_t num_edges() const override { return 100'000; }
    absl::Status Read(int64_t, int64_t count, EdgeBlock& block) override {
      if (std::this_thread::get_id() == caller_) ++reads_by_caller_;
      ++reads_;
      block.sources.assign(static_cast<size_t>(count), 1);
      block.destinations.assign(static_cast<size_t>(count), 2);
      return absl::OkStatus();
    }
    int reads() const { return reads_; }
    int reads_by_caller() const { return reads_by_caller_; }

   private:
    const std::thread::id caller_ = std::this_thread::get_id();
    int reads_ = 0;
    int reads_by_caller_ = 0;
  } edges;
  ASSERT_TRUE(Build(edges, 10, kMiB).ok());
  EXPECT_GT(edges.reads(), 1);
  EXPECT_EQ(edges.reads_by_caller(), 0);
}

TEST_F(CscBuilderTest, AnErrorOfTheSourceEndsIt) {
  class FailingEdges final : public EdgeSource {
   public:
    int64_t num_edges() const override { return 500'000; }
    absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
      if (first + count > 400'000) return absl::InvalidArgumentError("bad");
      block.sources.assign(static_cast<size_t>(count), 1);
      block.destinations.assign(static_cast<size_t>(count), 2);
      return absl::OkStatus();
    }
  } edges;
  EXPECT_EQ(Build(edges, 10, kMiB), absl::InvalidArgumentError("bad"));
}

// At the stop, another thread may be sorting the next bucket.
TEST_F(CscBuilderTest, AStopEndsTheSort) {
  std::vector<int64_t> nodes(500'000);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = static_cast<int64_t>(i * 7919 % 100'000);
  }
  VectorEdges edges(nodes, nodes);
  std::stop_source stop;
  ImportContext context(
      files_, kMiB, scratch_.Path("scratch"),
      [&](absl::string_view phase, uint64_t done, uint64_t total) {
        if (phase == "edges" && done > total / 2) stop.request_stop();
      },
      stop.get_token());
  const absl::Status status = BuildCsc(context, edges, {100'000, 100'000},
                                       {scratch_.path(), "test", "edge"})
                                  .status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST(SortBudgetTest, PositionsLeaveAWindowForEdges) {
  // 8 bytes a node and 4 an edge.
  const SortBudget budget{4, 100};
  EXPECT_EQ(budget.WindowEdges(5), 15);
  EXPECT_EQ(budget.WindowEdges(13), 0);
}

// The disk returns other bytes than were written.
TEST_F(CscBuilderTest, DamageInTheScratchFileIsNoticed) {
  const int64_t num_nodes = 100'000;
  std::vector<int64_t> nodes(200'000);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = static_cast<int64_t>(i * 7919 % num_nodes);
  }
  VectorEdges edges(nodes, nodes);
  files_.Inject({.for_good = true, .effect = io::Effect::kCorruptRead});
  EXPECT_TRUE(absl::IsDataLoss(Build(edges, num_nodes, kMiB)));
}

}  // namespace
}  // namespace hearth::ingest
