#include "engine/sample/slab_sampler.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/slab_topology.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {

namespace {

using store::NodeId;
using ::testing::HasSubstr;

// Blocks far smaller than slabs, that do not begin at pages.
constexpr store::ArrayAccess kSmallBlocks = {64, 256, false};

// A graph on disk.
class SlabSamplerTest : public ::testing::Test {
 protected:
  store::ArrayFile WriteArray(const std::string& prefix, const char* what,
                              absl::Span<const int64_t> values, bool wide) {
    auto writer = *store::ArrayWriter::Create(
        io::FileSystem::Posix(), {scratch_.path(), "graph", prefix}, what,
        wide ? store::DType::kInt64 : store::DType::kInt32,
        {std::ssize(values)}, kSmallBlocks);
    if (wide) {
      EXPECT_TRUE(writer->AppendValues(values).ok());
    } else {
      const std::vector<int32_t> narrow(values.begin(), values.end());
      EXPECT_TRUE(writer->AppendValues(absl::Span<const int32_t>(narrow)).ok());
    }
    return writer->Finish()->file;
  }

  void AddNodes(const std::string& name, int64_t count) {
    store::NodeTypeEntry& type = manifest_.node_types.emplace_back();
    type.name = name;
    type.num_nodes = count;
  }

  void AddEdges(const Graph& graph, const std::string& source,
                const std::string& destination, bool wide) {
    const std::string name = absl::StrCat("e", manifest_.edge_types.size());
    manifest_.edge_types.push_back(
        {.name = name,
         .source_type = source,
         .destination_type = destination,
         .num_edges = graph.indptr.back(),
         .indptr = WriteArray(name, "indptr", graph.indptr, true),
         .indices = WriteArray(name, "indices", graph.wide_indices, wide)});
  }

  void Store(const Graph& graph, bool wide = false) {
    manifest_ = {};
    AddNodes("node", std::ssize(graph.indptr) - 1);
    AddEdges(graph, "node", "node", wide);
  }

  void Store(const TypedExample& example) {
    manifest_ = {};
    const auto name = [](size_t type) { return absl::StrCat("n", type); };
    for (size_t type = 0; type < example.nodes.num_types(); ++type) {
      AddNodes(name(type),
               example.nodes.First(type + 1) - example.nodes.First(type));
    }
    for (const TypedExample::Edges& edges : example.edges) {
      AddEdges(edges.graph, name(edges.source), name(edges.destination),
               TypedExample::IsWide(manifest_.edge_types.size()));
    }
  }

  absl::StatusOr<std::vector<MiniBatch>> Sample(
      absl::Span<const SlabPass> passes, absl::Span<const SlabShard> shards,
      const std::vector<std::vector<NodeId>>& seeds,
      std::stop_token stop = {}) {
    auto topology = SlabTopology::Open(faulty_, scratch_.path(), manifest_,
                                       slab_bytes_, stop);
    if (!topology.ok()) return topology.status();
    num_slabs_ = (*topology)->slabs().size();
    std::vector<MiniBatch> batches;
    const absl::Status status = SampleInSlabs(
        {.files = faulty_,
         .topology = **topology,
         .clock = Clock::Real(),
         .samplers = samplers_,
         .scratch_folder = scratch_.Path("slabs"),
         .reserve =
             [&](uint64_t bytes) {
               reserved_ += bytes;
               return absl::OkStatus();
             },
         .progress =
             [&](uint64_t done, uint64_t total) {
               progress_ = {done, total};
             }},
        passes, shards, [&](size_t shard) { return seeds[shard]; },
        [&](size_t shard, const MiniBatch& batch) {
          EXPECT_EQ(batch.key.batch, shards[shard].key.batch);
          batches.push_back(batch);
          return absl::OkStatus();
        },
        std::move(stop));
    if (!status.ok()) return status;
    EXPECT_EQ(progress_.first, progress_.second);
    return batches;
  }

  bool LeavesAFile() const {
    return io::FileSystem::Posix().Stat(scratch_.Path("slabs")).ok();
  }

  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  store::Manifest manifest_;
  uint64_t slab_bytes_ = 4000;
  int samplers_ = 2;
  size_t num_slabs_ = 0;
  uint64_t reserved_ = 0;
  std::pair<uint64_t, uint64_t> progress_;
};

void ExpectSame(const MiniBatch& expected, const MiniBatch& actual) {
  EXPECT_EQ(expected.num_seeds, actual.num_seeds);
  EXPECT_EQ(expected.key.epoch_key, actual.key.epoch_key);
  EXPECT_EQ(expected.key.batch, actual.key.batch);
  EXPECT_EQ(expected.node_types, actual.node_types);
  ExpectEqual(expected, actual);
  for (size_t i = 0; i < expected.blocks.size(); ++i) {
    EXPECT_EQ(expected.blocks[i].edge_types, actual.blocks[i].edge_types);
  }
  ASSERT_EQ(expected.top.has_value(), actual.top.has_value());
  if (!expected.top.has_value()) return;
  EXPECT_EQ(expected.top->nodes, actual.top->nodes);
  EXPECT_EQ(expected.top->in_degrees, actual.top->in_degrees);
  EXPECT_EQ(expected.top->node_types, actual.top->node_types);
  EXPECT_EQ(expected.top->computed, actual.top->computed);
  EXPECT_EQ(expected.top->pulled, actual.top->pulled);
  EXPECT_EQ(expected.top->pushed, actual.top->pushed);
  EXPECT_EQ(expected.top->sum_of_ages, actual.top->sum_of_ages);
}

// Shards of `count` batches of two passes, and their seeds, some without any.
struct Shards {
  Shards(size_t num_passes, int count, int64_t num_nodes) {
    for (size_t pass = 0; pass < num_passes; ++pass) {
      for (int i = 0; i < count; ++i) {
        // Two shards a batch.
        shards.push_back({.pass = pass,
                          .key = {.epoch_key = 3 + pass,
                                  .batch = static_cast<uint64_t>(i / 2)}});
        std::vector<NodeId>& nodes = seeds.emplace_back();
        for (NodeId node = i; i % 5 != 4 && node < num_nodes;
             node += 13 + 2 * i) {
          nodes.push_back(node);
        }
      }
    }
  }

  std::vector<SlabShard> shards;
  std::vector<std::vector<NodeId>> seeds;
};

// All ways to draw of a graph with one edge type.
std::vector<NeighborSamplerOptions> AllOptions() {
  return {{.fanouts = {10, 5}, .data_seed = 11},
          {.fanouts = {3, 4, 5}, .data_seed = 11},
          {.fanouts = {-1, 4}, .data_seed = 11},
          {.fanouts = {4, -1}, .data_seed = 11},
          {.fanouts = {100, 2}, .data_seed = 11},
          {.fanouts = {0}},
          {.fanouts = {}},
          {.fanouts = {-1, -1}, .data_seed = 11, .layer_nodes = {40, 60}},
          {.fanouts = {3, 4, 5}, .data_seed = 11, .once = true},
          {.fanouts = {4, 0, -1}, .data_seed = 11, .once = true}};
}

TEST_F(SlabSamplerTest, GivesTheBatchesOfTheTopologyInMemory) {
  const Graph graph = RandomGraph(1500);
  const Shards shards(1, 12, 1500);
  // One slab for all; a few; lists longer than a slab.
  for (const uint64_t slab_bytes : {1 << 20, 4000, 512}) {
    slab_bytes_ = slab_bytes;
    samplers_ = slab_bytes == 512 ? 1 : 3;
    Store(graph, /*wide=*/slab_bytes == 4000);
    for (const NeighborSamplerOptions& options : AllOptions()) {
      const auto sampled =
          Sample({{.sampler = options}}, shards.shards, shards.seeds);
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      ASSERT_EQ(sampled->size(), shards.shards.size());
      const auto sampler = NewNeighborSampler(graph.topology(), options);
      for (size_t i = 0; i < sampled->size(); ++i) {
        ExpectSame(*sampler->Sample(shards.shards[i].key, shards.seeds[i]),
                   (*sampled)[i]);
      }
      EXPECT_EQ(num_slabs_ == 1, slab_bytes == 1 << 20);
      EXPECT_FALSE(LeavesAFile());
    }
  }
  EXPECT_GT(reserved_, 0u);
}

TEST_F(SlabSamplerTest, GivesTheTypedBatchesOfTheTopologyInMemory) {
  const TypedExample example;
  Store(example);
  const Shards shards(1, 8, 520);
  const std::vector<store::Relation> relations = example.Relations();
  const std::vector<NeighborSamplerOptions> all_options = {
      {.fanouts = {4, 2}, .data_seed = 4},
      {.fanouts = {-1, 2, 1}, .data_seed = 4},
      {.fanouts = {4, 2},
       .data_seed = 4,
       .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}},
      {.fanouts = {4, 2},
       .data_seed = 4,
       .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}},
       .once = true}};
  for (const uint64_t slab_bytes : {1 << 20, 2000, 300}) {
    slab_bytes_ = slab_bytes;
    for (const NeighborSamplerOptions& options : all_options) {
      const auto sampled =
          Sample({{.sampler = options}}, shards.shards, shards.seeds);
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      const auto sampler = NewTypedSampler(relations, example.nodes, options);
      for (size_t i = 0; i < sampled->size(); ++i) {
        ExpectSame(*sampler->Sample(shards.shards[i].key, shards.seeds[i]),
                   (*sampled)[i]);
      }
    }
  }
}

TEST_F(SlabSamplerTest, PassesWithOtherFanoutsAndHistoriesAreSampledTogether) {
  const Graph graph = RandomGraph(1500);
  Store(graph);
  std::vector<NodeId> nodes(700);
  std::iota(nodes.begin(), nodes.end(), 100);
  const HistoryPolicy policy = {
      .candidates = std::make_shared<HistoryCandidates>(nodes, 1500),
      .staleness = 3};
  const std::vector<SlabPass> passes = {
      {.sampler = {.fanouts = {5, 4, 3}, .data_seed = 2}, .history = &policy},
      {.sampler = {.fanouts = {3}, .data_seed = 2}},
      {.sampler = {.fanouts = {4, 2}, .data_seed = 7}, .history = &policy},
      {.sampler = {.fanouts = {4, 4, 2}, .data_seed = 2}}};
  Shards shards(passes.size(), 10, 1500);
  // Of the first pass only every third shard is wanted.
  for (size_t i = 0; i < 10; ++i) shards.shards[i].wanted = i % 3 == 1;
  const auto sampled = Sample(passes, shards.shards, shards.seeds);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  size_t next = 0;
  int64_t pulled = 0;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const auto sampler =
        NewNeighborSampler(graph.topology(), passes[pass].sampler);
    HistoryDecisions decisions(policy);
    for (size_t i = 10 * pass; i < 10 * pass + 10; ++i) {
      const BatchKey& key = shards.shards[i].key;
      MiniBatch expected;
      if (passes[pass].history != nullptr) {
        expected = *sampler->SampleTop(key, shards.seeds[i]);
        decisions.Decide(static_cast<int64_t>(key.batch), *expected.top);
        pulled += std::ssize(expected.top->pulled);
        ASSERT_TRUE(sampler->SampleRest(expected).ok());
      } else {
        expected = *sampler->Sample(key, shards.seeds[i]);
      }
      if (shards.shards[i].wanted) ExpectSame(expected, (*sampled)[next++]);
    }
  }
  EXPECT_EQ(next, sampled->size());
  EXPECT_GT(pulled, 0);
}

TEST_F(SlabSamplerTest, TypedHistories) {
  const TypedExample example;
  Store(example);
  std::vector<NodeId> nodes(520);
  std::iota(nodes.begin(), nodes.end(), 0);
  const HistoryPolicy policy = {
      .candidates = std::make_shared<HistoryCandidates>(nodes, 520),
      .staleness = 4};
  const NeighborSamplerOptions options = {.fanouts = {4, 2}, .data_seed = 4};
  const Shards shards(1, 8, 300);
  const auto sampled = Sample({{.sampler = options, .history = &policy}},
                              shards.shards, shards.seeds);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  const std::vector<store::Relation> relations = example.Relations();
  const auto sampler = NewTypedSampler(relations, example.nodes, options);
  HistoryDecisions decisions(policy);
  for (size_t i = 0; i < sampled->size(); ++i) {
    const BatchKey& key = shards.shards[i].key;
    MiniBatch expected = *sampler->SampleTop(key, shards.seeds[i]);
    decisions.Decide(static_cast<int64_t>(key.batch), *expected.top);
    ASSERT_TRUE(sampler->SampleRest(expected).ok());
    ExpectSame(expected, (*sampled)[i]);
  }
}

TEST_F(SlabSamplerTest, NoShardsGiveNoBatches) {
  Store(RandomGraph(100));
  const auto sampled = Sample({{.sampler = {.fanouts = {2, 2}}}}, {}, {});
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  EXPECT_TRUE(sampled->empty());
}

TEST_F(SlabSamplerTest, FewNodesReadTheBlocksThatTheyNeedAlone) {
  Graph graph = RandomGraph(30'000);
  Store(graph);
  slab_bytes_ = 1 << 20;
  const std::vector<SlabShard> one = {{.pass = 0, .key = {}}};
  ASSERT_TRUE(Sample({{.sampler = {.fanouts = {2}}}}, one, {{5, 29'000}}).ok());
  size_t reads = 0;
  for (const io::FaultyFileSystem::Call& call : faulty_.calls()) {
    reads += call.operation == io::Operation::kRead &&
                     call.path.find("indices.npy") != std::string::npos &&
                     call.path.find("crc") == std::string::npos
                 ? 1
                 : 0;
  }
  // A block for each drawn neighbor at most; a slab has thousands.
  EXPECT_GE(reads, 1u);
  EXPECT_LE(reads, 4u);
}

TEST_F(SlabSamplerTest, FaultsAreReturnedAndLeaveNoFile) {
  slab_bytes_ = 12'000;
  const Graph graph = RandomGraph(300);
  Store(graph);
  const NeighborSamplerOptions options = {.fanouts = {3, 2}, .data_seed = 1};
  const Shards shards(1, 3, 300);
  const auto sampler = NewNeighborSampler(graph.topology(), options);
  samplers_ = 1;
  int64_t failed = 0;
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const size_t before = faulty_.calls().size();
    const auto sampled =
        Sample({{.sampler = options}}, shards.shards, shards.seeds);
    if (faulty_.hits() == 0) break;
    const io::Operation hit =
        faulty_.calls()[before + static_cast<size_t>(nth) - 1].operation;
    if (!sampled.ok()) {
      ++failed;
      EXPECT_THAT(std::string(sampled.status().message()),
                  HasSubstr("injected fault"));
    } else {
      ExpectSame(*sampler->Sample(shards.shards[0].key, shards.seeds[0]),
                 sampled->front());
    }
    if (hit == io::Operation::kRemoveTree) {
      ASSERT_TRUE(
          io::FileSystem::Posix().RemoveTree(scratch_.Path("slabs")).ok());
    }
    EXPECT_FALSE(LeavesAFile()) << "operation " << nth;
  }
  EXPECT_GT(failed, 50);
}

TEST_F(SlabSamplerTest, DamageInTransitHeals) {
  slab_bytes_ = 12'000;
  const Graph graph = RandomGraph(300);
  Store(graph);
  const NeighborSamplerOptions options = {.fanouts = {3, 2}, .data_seed = 1};
  const Shards shards(1, 3, 300);
  const auto sampler = NewNeighborSampler(graph.topology(), options);
  samplers_ = 1;
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const auto sampled =
        Sample({{.sampler = options}}, shards.shards, shards.seeds);
    ASSERT_TRUE(sampled.ok()) << sampled.status();
    for (size_t i = 0; i < sampled->size(); ++i) {
      ExpectSame(*sampler->Sample(shards.shards[i].key, shards.seeds[i]),
                 (*sampled)[i]);
    }
    if (faulty_.hits() == 0) break;
  }
}

TEST_F(SlabSamplerTest, DamageOnDiskIsNamed) {
  const Graph graph = RandomGraph(300);
  const Shards shards(1, 3, 300);
  for (const bool in_indptr : {true, false}) {
    Store(graph);
    const store::ArrayFile& file = in_indptr ? manifest_.edge_types[0].indptr
                                             : manifest_.edge_types[0].indices;
    const std::string path = scratch_.Path(file.path);
    std::string contents =
        *io::ReadWholeFile(io::FileSystem::Posix(), path, 1 << 20);
    contents[file.data_offset + 1000] ^= 1;
    ASSERT_TRUE(
        io::WriteFileAtomically(io::FileSystem::Posix(), path, contents).ok());
    const auto sampled = Sample({{.sampler = {.fanouts = {-1, -1}}}},
                                shards.shards, shards.seeds);
    EXPECT_TRUE(absl::IsDataLoss(sampled.status())) << sampled.status();
    EXPECT_THAT(std::string(sampled.status().message()),
                HasSubstr(absl::StrCat(path, ": block 3 (bytes ",
                                       file.data_offset + 3 * 256, " .. ")));
    EXPECT_FALSE(LeavesAFile());
  }
}

TEST_F(SlabSamplerTest, WrongArraysAreNamed) {
  const Shards shards(1, 3, 300);
  const auto sample = [&](const Graph& graph) {
    Store(graph);
    return Sample({{.sampler = {.fanouts = {-1}}}}, shards.shards, shards.seeds)
        .status();
  };
  Graph graph = RandomGraph(300);
  graph.wide_indices[7] = 300;
  absl::Status status = sample(graph);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  const store::EdgeTypeEntry& edges = manifest_.edge_types[0];
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(absl::StrCat(
          scratch_.Path(edges.indices.path), ": the neighbor at byte ",
          edges.indices.data_offset + 7 * 4, " is not one of 300 nodes")));
  graph = RandomGraph(300);
  graph.indptr[20] = graph.indptr[19] - 1;
  status = sample(graph);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(scratch_.Path(edges.indptr.path),
                                     ": the offset at byte ",
                                     edges.indptr.data_offset + 20 * 8)));
}

TEST_F(SlabSamplerTest, AStopEndsIt) {
  Store(RandomGraph(300));
  const Shards shards(1, 3, 300);
  const SlabPass pass = {.sampler = {.fanouts = {3, 2}}};
  // Stopped at the nth read, wherever that is.
  for (int64_t nth = 1;; nth += 7) {
    std::stop_source stop;
    faulty_.Inject({.nth = nth,
                    .for_good = true,
                    .effect = io::Effect::kBlock,
                    .only = io::Operation::kRead});
    std::optional<absl::Status> status;
    {
      std::jthread stopper([&](std::stop_token done) {
        while (faulty_.hits() == 0 && !done.stop_requested()) {
          std::this_thread::yield();
        }
        stop.request_stop();
        faulty_.Clear();
      });
      status = Sample({pass}, shards.shards, shards.seeds, stop.get_token())
                   .status();
      stopper.request_stop();
    }
    if (status->ok()) break;
    ASSERT_TRUE(absl::IsCancelled(*status)) << *status;
    EXPECT_FALSE(LeavesAFile());
  }
}

TEST_F(SlabSamplerTest, AFullDiskIsReported) {
  Store(RandomGraph(300));
  const Shards shards(1, 3, 300);
  const SlabPass pass = {.sampler = {.fanouts = {3, 2}}};
  for (const uint64_t space : {100, 3'000, 10'000}) {
    faulty_.LimitSpace(space);
    const auto sampled = Sample({pass}, shards.shards, shards.seeds);
    EXPECT_TRUE(absl::IsResourceExhausted(sampled.status()))
        << sampled.status();
    EXPECT_FALSE(LeavesAFile());
  }
}

TEST_F(SlabSamplerTest, SlabsCoverTheNodesAndHoldToTheirSize) {
  const TypedExample example;
  Store(example);
  for (const uint64_t slab_bytes : {300, 2000, 1 << 20}) {
    const auto topology = *SlabTopology::Open(
        io::FileSystem::Posix(), scratch_.path(), manifest_, slab_bytes, {});
    NodeId next = 0;
    for (const Slab& slab : topology->slabs()) {
      EXPECT_EQ(slab.first, next);
      EXPECT_LT(slab.first, slab.end);
      EXPECT_EQ(example.nodes.TypeOf(slab.first), slab.type);
      EXPECT_EQ(example.nodes.TypeOf(slab.end - 1), slab.type);
      EXPECT_TRUE(slab.bytes <= slab_bytes || slab.end == slab.first + 1);
      next = slab.end;
    }
    EXPECT_EQ(next, example.nodes.num_nodes());
    for (NodeId node = 0; node < next; ++node) {
      const Slab& slab = topology->slabs()[topology->SlabOf(node)];
      EXPECT_TRUE(slab.first <= node && node < slab.end);
    }
    EXPECT_LE(std::ssize(topology->slabs()),
              SlabTopology::MostSlabs(manifest_, slab_bytes));
  }
}

TEST(SlabSamplingBytesTest, IsThatOfSlabsNotOfNodes) {
  const auto bytes = [](int64_t nodes, int64_t edges, int64_t num_shards) {
    store::Manifest manifest;
    store::NodeTypeEntry& type = manifest.node_types.emplace_back();
    type.name = "node";
    type.num_nodes = nodes;
    store::EdgeTypeEntry& entry = manifest.edge_types.emplace_back();
    entry.source_type = "node";
    entry.destination_type = "node";
    entry.num_edges = edges;
    entry.indptr.file_size_bytes = 128 + 8 * static_cast<uint64_t>(nodes + 1);
    entry.indices.file_size_bytes = 128 + 4 * static_cast<uint64_t>(edges);
    for (store::ArrayFile* array : {&entry.indptr, &entry.indices}) {
      array->data_offset = 128;
      array->crc_block_bytes = 64 << 10;
    }
    return SlabSamplingBytes({.manifest = manifest,
                              .slab_bytes = SlabTopology::SlabBytes(manifest),
                              .samplers = 2,
                              .num_shards = num_shards,
                              .shard = {}});
  };
  // Two slabs of 16 or 64 MiB, and less than half as much again.
  const uint64_t of_8m = bytes(8'388'608, 123'000'000, 82);
  EXPECT_GT(of_8m, 32u << 20);
  EXPECT_LT(of_8m, 48u << 20);
  const uint64_t of_111m = bytes(111'000'000, 1'600'000'000, 1180);
  EXPECT_GT(of_111m, 128u << 20);
  EXPECT_LT(of_111m, 192u << 20);
}

}  // namespace

}  // namespace hearth::sample
