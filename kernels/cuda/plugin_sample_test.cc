// Compares the plug-in's sampling with the same kernels emulated on the CPU.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/emulated_kernels.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/plugin_fixture.h"

namespace hearth::kernels {
namespace {

constexpr int64_t kNodes = 4000;
constexpr int64_t kSlots = 8192;

class PluginSampleTest : public PluginOnGpuTest {
 protected:
  void SetUp() override {
    PluginOnGpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    uint32_t random = 1;
    for (int64_t node = 0; node < kNodes / 2; ++node) {
      const int64_t degree = node % 19 == 0 ? 900 : node % 40;
      for (int64_t i = 0; i < degree; ++i) {
        random = random * 1664525u + 1013904223u;
        indices_.push_back(static_cast<int32_t>((random >> 8) % (kNodes / 2)));
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
    }
    Check(table_->host_register(0, indptr_.data(),
                                indptr_.size() * sizeof(int64_t)));
    Check(table_->host_register(0, indices_.data(),
                                indices_.size() * sizeof(int32_t)));
    registered_ = true;
  }

  void TearDown() override {
    if (registered_) {
      Check(table_->host_unregister(0, indices_.data()));
      Check(table_->host_unregister(0, indptr_.data()));
    }
    PluginOnGpuTest::TearDown();
  }

  // A graph of two node types, the first half of the nodes and the second, and
  // as many edge types, which have the same arrays: each leads to the first
  // type, from either. Its tables are in the host's memory.
  HearthCudaGraph Graph(int32_t fanout) {
    relations_.clear();
    for (const int64_t first_source : {int64_t{0}, kNodes / 2}) {
      relations_.push_back({.indptr = indptr_.data(),
                            .indices = indices_.data(),
                            .num_edges = static_cast<int64_t>(indices_.size()),
                            .first_destination = 0,
                            .first_source = first_source,
                            .num_sources = kNodes / 2,
                            .prefix = static_cast<uint64_t>(first_source) + 3,
                            .fanout = fanout,
                            .index_bytes = sizeof(int32_t)});
    }
    return {.relations = relations_.data(),
            .type_firsts = type_firsts_.data(),
            .lists = lists_.data(),
            .num_nodes = kNodes,
            .num_relations = 2,
            .num_types = 2,
            .lists_per_node = 2};
  }

  // The graph with its tables on the device.
  HearthCudaGraph OnDevice(HearthCudaGraph graph) {
    graph.relations = ToDevice(relations_);
    graph.type_firsts = ToDevice(type_firsts_);
    graph.lists = ToDevice(lists_);
    return graph;
  }

  // The room that a layer of `count` destinations takes, emulated.
  struct Layer {
    explicit Layer(int64_t count)
        : nodes(kNodes),
          starts(static_cast<size_t>(2 * count)),
          degrees(starts),
          in_degrees(static_cast<size_t>(count)),
          indptr(starts.size() + 1),
          node_indptr(in_degrees.size() + 1),
          scratch(static_cast<size_t>(HEARTH_CUDA_SCAN_SCRATCH(2 * count + 1))),
          table_nodes(kSlots),
          positions(kSlots) {
      for (int64_t i = 0; i < count; ++i) nodes[i] = i * 7 % kNodes;
    }

    void MakeRoom(int64_t num_edges) {
      indices.resize(static_cast<size_t>(num_edges));
      sources.resize(indices.size());
      edge_relations.resize(indices.size());
      ranks.resize(static_cast<size_t>(
          num_edges + 1 + HEARTH_CUDA_SCAN_SCRATCH(num_edges + 1)));
    }

    std::vector<int64_t> nodes;
    std::vector<int64_t> starts;
    std::vector<int64_t> degrees;
    std::vector<int64_t> in_degrees;
    std::vector<int64_t> indptr;
    std::vector<int64_t> node_indptr;
    std::vector<int64_t> scratch;
    std::vector<unsigned long long> table_nodes;
    std::vector<uint32_t> positions;
    std::vector<int32_t> indices;
    std::vector<int64_t> sources;
    std::vector<uint16_t> edge_relations;
    std::vector<uint32_t> ranks;
    HearthCudaDamage damage = {};
  };

  static HearthCudaSampleLayer Emulate(const HearthCudaGraph& graph,
                                       int64_t count, Layer& layer) {
    const HearthCudaNodeTable table = {layer.table_nodes.data(),
                                       layer.positions.data(), kSlots};
    EmulateFillTable({table, layer.nodes.data(), count, &layer.damage});
    EmulateLookUp({graph, layer.nodes.data(), 0, count, layer.starts.data(),
                   layer.degrees.data(), layer.in_degrees.data(),
                   &layer.damage});
    EmulateCountEdges({graph, layer.nodes.data(), layer.degrees.data(), count,
                       layer.indptr.data(), layer.node_indptr.data(),
                       layer.scratch.data()});
    layer.MakeRoom(layer.indptr.back());
    const HearthCudaSampleLayer sample = {
        .graph = graph,
        .starts = layer.starts.data(),
        .degrees = layer.degrees.data(),
        .num_destinations = count,
        .key = {1, 2},
        .layer = 1,
        .indptr = layer.indptr.data(),
        .num_edges = layer.indptr.back(),
        .table = table,
        .nodes = layer.nodes.data(),
        .indices = layer.indices.data(),
        .sources = layer.sources.data(),
        .edge_relations = layer.edge_relations.data(),
        .ranks = layer.ranks.data(),
        .damage = &layer.damage};
    EmulateSampleLayer(sample);
    return sample;
  }

  // A layer, and the device's other results.
  struct OnDeviceToo {
    HearthCudaSampleLayer layer;
    int64_t* in_degrees;
    int64_t* node_indptr;
  };

  // Runs the same on the device.
  OnDeviceToo Run(HearthCudaSampleLayer sample) {
    const int64_t count = sample.num_destinations;
    Layer fresh(count);
    fresh.MakeRoom(sample.num_edges);
    sample.graph = OnDevice(sample.graph);
    int64_t* const nodes = ToDevice(fresh.nodes);
    int64_t* const starts = ToDevice(fresh.starts);
    int64_t* const degrees = ToDevice(fresh.degrees);
    int64_t* const in_degrees = ToDevice(fresh.in_degrees);
    int64_t* const indptr = ToDevice(fresh.indptr);
    int64_t* const node_indptr = ToDevice(fresh.node_indptr);
    sample.starts = starts;
    sample.degrees = degrees;
    sample.indptr = indptr;
    sample.nodes = nodes;
    sample.table.nodes = ToDevice(fresh.table_nodes);
    sample.table.positions = ToDevice(fresh.positions);
    sample.indices = ToDevice(fresh.indices);
    sample.sources = ToDevice(fresh.sources);
    sample.edge_relations = ToDevice(fresh.edge_relations);
    sample.ranks = ToDevice(fresh.ranks);
    sample.damage = ToDevice(std::vector<HearthCudaDamage>(1));
    const HearthCudaFillTable fill = {sample.table, nodes, count,
                                      sample.damage};
    Check(table_->fill_table(&fill, stream_));
    const HearthCudaLookUp look_up = {sample.graph, nodes,        0,
                                      count,        starts,       degrees,
                                      in_degrees,   sample.damage};
    Check(table_->look_up_nodes(&look_up, stream_));
    const HearthCudaCountEdges edges = {
        sample.graph,           nodes, degrees, count, indptr, node_indptr,
        ToDevice(fresh.scratch)};
    Check(table_->count_edges(&edges, stream_));
    Check(table_->sample_layer(&sample, stream_));
    Wait();
    return {sample, in_degrees, node_indptr};
  }

  template <typename T>
  void ExpectEqual(const T* device, const std::vector<T>& host, size_t count) {
    std::vector<T> actual(count);
    Check(table_->copy(actual.data(), device, count * sizeof(T), stream_));
    Wait();
    EXPECT_EQ(actual, std::vector<T>(host.begin(), host.begin() + count));
  }

  std::vector<int64_t> indptr_ = {0};
  std::vector<int32_t> indices_;
  std::vector<HearthCudaRelation> relations_;
  const std::vector<int64_t> type_firsts_ = {0, kNodes / 2, kNodes};
  const std::vector<int32_t> lists_ = {0, 1, -1, -1};
  bool registered_ = false;
};

TEST_F(PluginSampleTest, GivesTheEmulationsLayersForEverySize) {
  for (const int64_t count : {0, 1, 31, 32, 33, 300, 3000}) {
    for (const int32_t fanout : {-1, 0, 3, 10, 100}) {
      Layer host(count);
      const HearthCudaSampleLayer sample = Emulate(Graph(fanout), count, host);
      const auto [device, in_degrees, node_indptr] = Run(sample);
      const auto num_edges = static_cast<size_t>(sample.num_edges);
      ExpectEqual(in_degrees, host.in_degrees, host.in_degrees.size());
      ExpectEqual(node_indptr, host.node_indptr, host.node_indptr.size());
      ExpectEqual(device.edge_relations, host.edge_relations, num_edges);
      ExpectEqual(device.indptr, host.indptr, host.indptr.size());
      ExpectEqual(device.degrees, host.degrees, host.degrees.size());
      ExpectEqual(device.indices, host.indices, num_edges);
      ExpectEqual(device.sources, host.sources, num_edges);
      ExpectEqual(device.ranks + num_edges, {host.ranks[num_edges]}, 1);
      ExpectEqual(device.nodes, host.nodes,
                  static_cast<size_t>(count) + host.ranks[num_edges]);
    }
  }
}

TEST_F(PluginSampleTest, RefusesNonsense) {
  HearthCudaSampleLayer layer = {};
  layer.num_edges = -1;
  EXPECT_NE(table_->sample_layer(&layer, stream_), 0);
  EXPECT_NE(table_->host_unregister(0, &layer), 0);
}

}  // namespace
}  // namespace hearth::kernels
