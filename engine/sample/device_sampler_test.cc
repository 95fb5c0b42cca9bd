#include "engine/sample/device_sampler.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::sample {
namespace {

using cuda::FakeCuda;
using store::NodeId;
using ::testing::HasSubstr;

std::vector<NodeId> Seeds(int64_t first, int64_t count) {
  std::vector<NodeId> seeds;
  for (int64_t i = 0; i < count; ++i) seeds.push_back(first + i * 3);
  return seeds;
}

NeighborSamplerOptions OptionsOf(std::vector<int32_t> fanouts) {
  return {.fanouts = std::move(fanouts), .data_seed = 11};
}

// A relation over a topology of one edge type, like store::SingleTopology's.
store::Relation RelationOf(const store::Topology& topology) {
  return {.topology = topology, .num_sources = topology.num_nodes()};
}

class DeviceSamplerTest : public ::testing::Test {
 protected:
  std::unique_ptr<DeviceTopology> Register(const store::Topology& topology) {
    relations_.push_back(
        std::make_unique<store::Relation>(RelationOf(topology)));
    return Register({relations_.back().get(), 1},
                    store::NodeSpace({topology.num_nodes()}));
  }

  std::unique_ptr<DeviceTopology> Register(
      absl::Span<const store::Relation> relations,
      const store::NodeSpace& nodes) {
    auto registered =
        DeviceTopology::Register(fake_.device(), relations, nodes);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return *std::move(registered);
  }

  // Expects equal batches, of each of these sizes, from one sampler on each
  // side.
  void ExpectTheProcessors(const store::Topology& topology,
                           const std::vector<int32_t>& fanouts,
                           const std::vector<int64_t>& sizes) {
    const auto on_device = Register(topology);
    const auto expected = NewNeighborSampler(topology, OptionsOf(fanouts));
    const auto sampler = on_device->NewSampler(OptionsOf(fanouts), {});
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<NodeId> seeds =
          Seeds(static_cast<int64_t>(i), sizes[i]);
      const BatchKey key = {.epoch_key = 2, .batch = i};
      const auto sampled = sampler->Sample(key, seeds);
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      EXPECT_EQ(sampled->key.batch, i);
      EXPECT_EQ(sampled->num_seeds, sizes[i]);
      ExpectEqual(*expected->Sample(key, seeds), *sampled);
    }
  }

  FakeCuda fake_;
  // Relations, which outlive the registered topologies.
  std::vector<std::unique_ptr<store::Relation>> relations_;
};

class DeviceSamplerFanoutsTest
    : public DeviceSamplerTest,
      public ::testing::WithParamInterface<std::vector<int32_t>> {};

TEST_P(DeviceSamplerFanoutsTest, BatchesAreTheProcessors) {
  const Graph graph = RandomGraph(1500);
  const std::vector<int64_t> sizes = {300, 0, 1, 31, 32, 33, 257, 400};
  ExpectTheProcessors(graph.topology(), GetParam(), sizes);
  ExpectTheProcessors(graph.wide_topology(), GetParam(), sizes);
}

INSTANTIATE_TEST_SUITE_P(
    Fanouts, DeviceSamplerFanoutsTest,
    ::testing::Values(std::vector<int32_t>{}, std::vector<int32_t>{5},
                      std::vector<int32_t>{10, 3}, std::vector<int32_t>{3, 10},
                      std::vector<int32_t>{2, 3, 4},
                      std::vector<int32_t>{-1, 4}, std::vector<int32_t>{4, -1},
                      std::vector<int32_t>{-1, -1}, std::vector<int32_t>{0},
                      std::vector<int32_t>{0, 5},
                      std::vector<int32_t>{100, 2}));

// Degrees of 0 and far above the fan-out; few sources, so that edges repeat
// within a row and between rows.
TEST_F(DeviceSamplerTest, HubsIsolatedNodesAndRepeatedEdges) {
  Graph graph;
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int64_t node = 0; node < 300; ++node) {
    std::vector<int32_t> sources(std::vector<size_t>{0, 7000, 1, 33}[node % 4]);
    for (int32_t& source : sources) {
      source = static_cast<int32_t>(random.Below(40));
    }
    graph.AddRow(sources);
  }
  for (const std::vector<int32_t>& fanouts :
       {std::vector<int32_t>{4, 4}, {-1, 2}, {70, 500}, {7000, 1}}) {
    ExpectTheProcessors(graph.topology(), fanouts, {1, 2, 33, 90});
  }
}

TEST_F(DeviceSamplerTest, AGraphWithoutEdges) {
  Graph graph;
  for (int64_t node = 0; node < 100; ++node) graph.AddRow({});
  ExpectTheProcessors(graph.topology(), {5, -1}, {1, 33, 0});
}

TEST_F(DeviceSamplerTest, InTwoSteps) {
  const Graph graph = RandomGraph(900);
  const auto on_device = Register(graph.topology());
  for (const std::vector<int32_t>& fanouts :
       {std::vector<int32_t>{5, 4}, {3, 4, 2}}) {
    const auto expected =
        NewNeighborSampler(graph.topology(), OptionsOf(fanouts));
    const auto sampler = on_device->NewSampler(OptionsOf(fanouts), {});
    for (const int every : {1, 3}) {
      MiniBatch wanted = *expected->SampleTop({.batch = 4}, Seeds(0, 100));
      MiniBatch sampled = *sampler->SampleTop({.batch = 4}, Seeds(0, 100));
      ExpectEqual(wanted, sampled);
      EXPECT_EQ(wanted.top->nodes, sampled.top->nodes);
      EXPECT_EQ(wanted.top->in_degrees, sampled.top->in_degrees);
      for (size_t i = 0; i < wanted.top->nodes.size(); i += every) {
        wanted.top->computed.push_back(static_cast<int32_t>(i));
      }
      sampled.top->computed = wanted.top->computed;
      ASSERT_TRUE(expected->SampleRest(wanted).ok());
      ASSERT_TRUE(sampler->SampleRest(sampled).ok());
      ExpectEqual(wanted, sampled);
    }
  }
}

TEST_F(DeviceSamplerTest, ThreadsHaveTheirOwn) {
  const Graph graph = RandomGraph(800);
  const auto on_device = Register(graph.topology());
  std::vector<std::optional<MiniBatch>> batches(12);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      const auto sampler = on_device->NewSampler(OptionsOf({6, 3}), {});
      for (size_t batch = thread; batch < batches.size(); batch += 3) {
        batches[batch] = *sampler->Sample({.batch = batch}, Seeds(0, 60));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto expected = NewNeighborSampler(graph.topology(), OptionsOf({6, 3}));
  for (size_t batch = 0; batch < batches.size(); ++batch) {
    ExpectEqual(*expected->Sample({.batch = batch}, Seeds(0, 60)),
                *batches[batch]);
  }
}

TEST_F(DeviceSamplerTest, MemoryIsTakenOnceForTheLargestBatch) {
  const Graph graph = RandomGraph(1500);
  const NeighborSamplerOptions options = OptionsOf({10, 5});
  const BatchShape largest = ShapeBound(
      options, 200, {.num_nodes = 1500, .num_edges = graph.indptr.back()});
  const auto on_device = Register(graph.topology());
  EXPECT_EQ(fake_.registered_bytes(),
            static_cast<int64_t>(graph.indptr.size() * sizeof(int64_t) +
                                 graph.indices.size() * sizeof(int32_t)));
  fake_.TakePeakDeviceBytes();
  const auto bound = static_cast<int64_t>(
      DeviceTopology::DeviceBytes(largest, {.num_nodes = 1500}));
  for (int pass = 0; pass < 2; ++pass) {
    const auto sampler = on_device->NewSampler(options, largest);
    for (const int64_t size : {1, 200, 40}) {
      ASSERT_TRUE(sampler->Sample({}, Seeds(0, size)).ok());
      // Sizes of allocations are rounded up in the bound.
      EXPECT_LE(fake_.device_bytes(), bound);
      EXPECT_GT(fake_.device_bytes(), bound - 512);
    }
    EXPECT_EQ(fake_.TakePeakDeviceBytes(), fake_.device_bytes());
  }
  // All memory is freed and allocated again.
  on_device->Rest();
  EXPECT_EQ(fake_.device_bytes(), 0);
  EXPECT_EQ(fake_.pinned_bytes(), 0);
  const auto sampler = on_device->NewSampler(options, largest);
  ASSERT_TRUE(sampler->Sample({}, Seeds(0, 20)).ok());
}

TEST_F(DeviceSamplerTest, ABatchLargerThanTheLargestFindsRoom) {
  const Graph graph = RandomGraph(1500);
  const NeighborSamplerOptions options = OptionsOf({10, -1});
  const auto on_device = Register(graph.topology());
  const auto expected = NewNeighborSampler(graph.topology(), options);
  const auto sampler =
      on_device->NewSampler(options, {.nodes = {40, 20, 2}, .edges = {30, 20}});
  for (const int64_t size : {2, 400, 30}) {
    ExpectEqual(*expected->Sample({}, Seeds(0, size)),
                *sampler->Sample({}, Seeds(0, size)));
  }
}

// Arrays that are damaged after registration.
TEST_F(DeviceSamplerTest, DamageIsToldAsTheProcessorTellsIt) {
  const Graph graph = RandomGraph(200);
  const NeighborSamplerOptions options = OptionsOf({-1, -1});
  const auto expect_told = [&](const store::Topology& damaged) {
    const absl::Status status = Register(damaged)
                                    ->NewSampler(options, {})
                                    ->Sample({}, Seeds(0, 66))
                                    .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(status, NewNeighborSampler(damaged, options)
                          ->Sample({}, Seeds(0, 66))
                          .status());
  };
  for (const int32_t wrong : {200, -1, INT32_MAX, INT32_MIN}) {
    for (const size_t edge : {size_t{0}, graph.indices.size() - 1}) {
      Graph damaged = graph;
      damaged.indices[edge] = wrong;
      expect_told(damaged.topology());
      damaged.wide_indices[edge] = wrong;
      expect_told(damaged.wide_topology());
    }
  }
  for (const int64_t wrong :
       {int64_t{-1}, INT64_MAX, INT64_MIN, graph.indptr.back() + 1}) {
    for (const size_t node : {size_t{3}, size_t{99}}) {
      Graph damaged = graph;
      damaged.indptr[node] = wrong;
      expect_told(damaged.topology());
    }
  }
}

// ExpectEqual for heterographs.
void ExpectEqualTypes(const MiniBatch& expected, const MiniBatch& actual) {
  ExpectEqual(expected, actual);
  EXPECT_EQ(expected.node_types, actual.node_types);
  for (size_t i = 0; i < expected.blocks.size(); ++i) {
    EXPECT_EQ(expected.blocks[i].edge_types, actual.blocks[i].edge_types);
  }
}

class TypedDeviceSamplerTest : public DeviceSamplerTest {
 protected:
  // Seeds of all types: papers, then authors, then venues.
  std::vector<NodeId> MixedSeeds(int64_t count) const {
    std::vector<NodeId> seeds = Seeds(0, count);
    for (const NodeId node : {300, 499, 500, 519}) seeds.push_back(node);
    return seeds;
  }

  const TypedExample example_ = {};
  const std::vector<store::Relation> types_ = example_.Relations();
};

TEST_F(TypedDeviceSamplerTest, BatchesAreTheProcessors) {
  const auto on_device = Register(types_, example_.nodes);
  for (const NeighborSamplerOptions& options :
       {OptionsOf({}), OptionsOf({4}), OptionsOf({3, 5, 2}), OptionsOf({-1, 2}),
        OptionsOf({0, 4}),
        NeighborSamplerOptions{.fanouts = {4, 2},
        .data_seed = 4,
        .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}}}) {
    const auto expected = NewTypedSampler(types_, example_.nodes, options);
    const auto sampler = on_device->NewSampler(options, {});
    for (const int64_t size : {1, 90, 0, 33}) {
      const BatchKey key = {.epoch_key = 2,
                            .batch = static_cast<uint64_t>(size)};
      const auto sampled = sampler->Sample(key, MixedSeeds(size));
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      ExpectEqualTypes(*expected->Sample(key, MixedSeeds(size)), *sampled);
    }
  }
}

TEST_F(TypedDeviceSamplerTest, InTwoSteps) {
  const auto on_device = Register(types_, example_.nodes);
  const NeighborSamplerOptions options = OptionsOf({3, 4, 2});
  const auto expected = NewTypedSampler(types_, example_.nodes, options);
  const auto sampler = on_device->NewSampler(options, {});
  MiniBatch wanted = *expected->SampleTop({.batch = 4}, MixedSeeds(60));
  MiniBatch sampled = *sampler->SampleTop({.batch = 4}, MixedSeeds(60));
  ExpectEqualTypes(wanted, sampled);
  EXPECT_EQ(wanted.top->nodes, sampled.top->nodes);
  EXPECT_EQ(wanted.top->in_degrees, sampled.top->in_degrees);
  EXPECT_EQ(wanted.top->node_types, sampled.top->node_types);
  for (size_t i = 0; i < wanted.top->nodes.size(); i += 2) {
    wanted.top->computed.push_back(static_cast<int32_t>(i));
  }
  sampled.top->computed = wanted.top->computed;
  ASSERT_TRUE(expected->SampleRest(wanted).ok());
  ASSERT_TRUE(sampler->SampleRest(sampled).ok());
  ExpectEqualTypes(wanted, sampled);
}

// Graphs whose nodes have types and edges not, and the other way round.
TEST_F(TypedDeviceSamplerTest, OneEdgeTypeOrOneNodeType) {
  const NeighborSamplerOptions options = OptionsOf({3, 4});
  const std::vector<store::Relation> cited = {types_[0]};
  ExpectEqualTypes(*NewTypedSampler(cited, example_.nodes, options)
                        ->Sample({}, MixedSeeds(50)),
                   *Register(cited, example_.nodes)
                        ->NewSampler(options, {})
                        ->Sample({}, MixedSeeds(50)));
  const store::NodeSpace papers({300});
  const Graph other = RandomRelation(300, 300, 9);
  std::vector<store::Relation> twice = {types_[0], types_[0]};
  twice[1].type = 1;
  twice[1].topology = other.topology();
  ExpectEqualTypes(
      *NewTypedSampler(twice, papers, options)->Sample({}, Seeds(0, 50)),
      *Register(twice, papers)
           ->NewSampler(options, {})
           ->Sample({}, Seeds(0, 50)));
}

TEST_F(TypedDeviceSamplerTest, MemoryIsTakenOnceForTheLargestBatch) {
  const NeighborSamplerOptions options = OptionsOf({10, 5});
  const BatchShape largest = ShapeBound(
      options, 100,
      {.num_nodes = 520,
       .num_edges = 5000,
       .edge_types_into = store::RelationsInto(types_, example_.nodes)});
  const auto on_device = Register(types_, example_.nodes);
  const auto bound = static_cast<int64_t>(DeviceTopology::DeviceBytes(
      largest, {.num_nodes = 520,
                .num_types = 4,
                .num_relations = 5,
                .lists_per_node = largest.types_per_node}));
  const auto sampler = on_device->NewSampler(options, largest);
  for (const int64_t size : {1, 96, 40}) {
    ASSERT_TRUE(sampler->Sample({}, MixedSeeds(size)).ok());
    EXPECT_LE(fake_.device_bytes(), bound);
    EXPECT_GT(fake_.device_bytes(), bound - 512);
  }
}

TEST_F(TypedDeviceSamplerTest, DamageIsToldAsTheProcessorTellsIt) {
  const NeighborSamplerOptions options = OptionsOf({-1, -1});
  const auto expect_told = [&](const TypedExample& damaged) {
    const std::vector<store::Relation> types = damaged.Relations();
    const absl::Status status = Register(types, damaged.nodes)
                                    ->NewSampler(options, {})
                                    ->Sample({}, MixedSeeds(90))
                                    .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(status, NewTypedSampler(types, damaged.nodes, options)
                          ->Sample({}, MixedSeeds(90))
                          .status());
  };
  for (const size_t type : {0, 1, 3}) {
    TypedExample damaged = example_;
    Graph& graph = damaged.edges[type].graph;
    graph.indices[0] = graph.wide_indices[0] = 300;
    expect_told(damaged);
    damaged = example_;
    damaged.edges[type].graph.indptr[3] = -1;
    expect_told(damaged);
  }
}

class DeviceSamplerFaultTest : public DeviceSamplerTest {
 protected:
  // Samples with the injected fault: the processor's batch, or an error.
  absl::Status SampleOnce() {
    auto on_device = DeviceTopology::Register(fake_.device(), {&relation_, 1},
                                              store::NodeSpace({600}));
    if (!on_device.ok()) return on_device.status();
    // The second batch needs more memory.
    const auto sampler = (*on_device)->NewSampler(options_, {});
    const auto expected = NewNeighborSampler(graph_.topology(), options_);
    for (const int64_t size : {3, 90}) {
      const auto sampled = sampler->Sample({}, Seeds(0, size));
      if (!sampled.ok()) {
        ExpectToGoOn(*sampler);
        return sampled.status();
      }
      ExpectEqual(*expected->Sample({}, Seeds(0, size)), *sampled);
    }
    // A fault that is still pending hits a destructor, which reports nothing.
    failed_in_time_ = fake_.failed();
    return absl::OkStatus();
  }

  // Samples with a new workspace of the same topology.
  void ExpectToGoOn(NeighborSampler& sampler) {
    const auto sampled = sampler.Sample({}, Seeds(0, 10));
    ASSERT_TRUE(sampled.ok()) << sampled.status();
    ExpectEqual(*NewNeighborSampler(graph_.topology(), options_)
                     ->Sample({}, Seeds(0, 10)),
                *sampled);
  }

  const Graph graph_ = RandomGraph(600);
  const store::Relation relation_ = RelationOf(graph_.topology());
  const NeighborSamplerOptions options_ = OptionsOf({4, -1});
  bool failed_in_time_ = false;
};

TEST_F(DeviceSamplerFaultTest, ACallThatFailsIsAnErrorAndNothingIsLeft) {
  int64_t calls = 0;
  for (;; ++calls) {
    fake_.FailCall(calls + 1);
    const absl::Status status = SampleOnce();
    EXPECT_EQ(fake_.device_bytes(), 0);
    EXPECT_EQ(fake_.pinned_bytes(), 0);
    EXPECT_EQ(fake_.registered_bytes(), 0);
    if (!fake_.failed()) break;
    if (status.ok()) {
      EXPECT_FALSE(failed_in_time_) << calls;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << calls;
  }
  fake_.FailCall(0);
  EXPECT_GT(calls, 40);
}

TEST_F(DeviceSamplerFaultTest, WorkThatFailsIsAnErrorAndNothingIsLeft) {
  int64_t work = 0;
  for (;; ++work) {
    fake_.FailWork(work + 1);
    const absl::Status status = SampleOnce();
    EXPECT_EQ(fake_.device_bytes(), 0);
    if (!fake_.failed()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << work;
    EXPECT_THAT(std::string(status.message()), HasSubstr("launch failure"));
  }
  fake_.FailWork(0);
  EXPECT_GT(work, 30);
}

TEST_F(DeviceSamplerFaultTest, TooLittleMemoryIsSaid) {
  // Calls 1 and 2 register memory, then the sampler allocates.
  for (const int64_t call : {1, 2, 3, 4}) {
    fake_.FailCall(call, HEARTH_CUDA_OUT_OF_MEMORY);
    const absl::Status status = SampleOnce();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(" bytes of "));
  }
}

}  // namespace
}  // namespace hearth::sample
