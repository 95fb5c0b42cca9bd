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
    for (int64_t node = 0; node < kNodes; ++node) {
      const int64_t degree = node % 19 == 0 ? 900 : node % 40;
      for (int64_t i = 0; i < degree; ++i) {
        random = random * 1664525u + 1013904223u;
        indices_.push_back(static_cast<int32_t>((random >> 8) % kNodes));
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

  HearthCudaTopology Topology() const {
    return {indptr_.data(), indices_.data(), kNodes,
            static_cast<int64_t>(indices_.size()), sizeof(int32_t)};
  }

  // The room that a layer of `count` destinations takes, emulated.
  struct Layer {
    explicit Layer(int64_t count)
        : nodes(kNodes),
          starts(static_cast<size_t>(count)),
          degrees(starts),
          indptr(starts.size() + 1),
          scratch(static_cast<size_t>(HEARTH_CUDA_SCAN_ROOM(count + 1))),
          table_nodes(kSlots),
          positions(kSlots) {
      for (int64_t i = 0; i < count; ++i) nodes[i] = i * 7 % kNodes;
    }

    void MakeRoom(int64_t num_edges) {
      indices.resize(static_cast<size_t>(num_edges));
      sources.resize(indices.size());
      ranks.resize(static_cast<size_t>(num_edges + 1 +
                                       HEARTH_CUDA_SCAN_ROOM(num_edges + 1)));
    }

    std::vector<int64_t> nodes;
    std::vector<int64_t> starts;
    std::vector<int64_t> degrees;
    std::vector<int64_t> indptr;
    std::vector<int64_t> scratch;
    std::vector<unsigned long long> table_nodes;
    std::vector<uint32_t> positions;
    std::vector<int32_t> indices;
    std::vector<int64_t> sources;
    std::vector<uint32_t> ranks;
    HearthCudaDamage damage = {};
  };

  static HearthCudaSampleLayer Emulate(const HearthCudaTopology& topology,
                                       int64_t count, int32_t fanout,
                                       Layer& layer) {
    const HearthCudaNodeTable table = {layer.table_nodes.data(),
                                       layer.positions.data(), kSlots};
    EmulateFillTable({table, layer.nodes.data(), count, &layer.damage});
    EmulateLookUp({topology, layer.nodes.data(), 0, count, layer.starts.data(),
                   layer.degrees.data(), &layer.damage});
    EmulateCountEdges({layer.degrees.data(), count, fanout, layer.indptr.data(),
                       layer.scratch.data()});
    layer.MakeRoom(layer.indptr.back());
    const HearthCudaSampleLayer sample = {.topology = topology,
                                          .starts = layer.starts.data(),
                                          .degrees = layer.degrees.data(),
                                          .num_destinations = count,
                                          .fanout = fanout,
                                          .key = {1, 2},
                                          .prefix = 3,
                                          .layer = 1,
                                          .indptr = layer.indptr.data(),
                                          .num_edges = layer.indptr.back(),
                                          .table = table,
                                          .nodes = layer.nodes.data(),
                                          .indices = layer.indices.data(),
                                          .sources = layer.sources.data(),
                                          .ranks = layer.ranks.data(),
                                          .damage = &layer.damage};
    EmulateSampleLayer(sample);
    return sample;
  }

  // Runs the same on the device.
  HearthCudaSampleLayer Run(HearthCudaSampleLayer sample) {
    const int64_t count = sample.num_destinations;
    Layer fresh(count);
    fresh.MakeRoom(sample.num_edges);
    int64_t* const nodes = ToDevice(fresh.nodes);
    int64_t* const starts = ToDevice(fresh.starts);
    int64_t* const degrees = ToDevice(fresh.degrees);
    int64_t* const indptr = ToDevice(fresh.indptr);
    sample.starts = starts;
    sample.degrees = degrees;
    sample.indptr = indptr;
    sample.nodes = nodes;
    sample.table.nodes = ToDevice(fresh.table_nodes);
    sample.table.positions = ToDevice(fresh.positions);
    sample.indices = ToDevice(fresh.indices);
    sample.sources = ToDevice(fresh.sources);
    sample.ranks = ToDevice(fresh.ranks);
    sample.damage = ToDevice(std::vector<HearthCudaDamage>(1));
    const HearthCudaFillTable fill = {sample.table, nodes, count,
                                      sample.damage};
    Check(table_->fill_table(&fill, stream_));
    const HearthCudaLookUp look_up = {
        sample.topology, nodes, 0, count, starts, degrees, sample.damage};
    Check(table_->look_up_nodes(&look_up, stream_));
    const HearthCudaCountEdges edges = {degrees, count, sample.fanout, indptr,
                                        ToDevice(fresh.scratch)};
    Check(table_->count_edges(&edges, stream_));
    Check(table_->sample_layer(&sample, stream_));
    Wait();
    return sample;
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
  bool registered_ = false;
};

TEST_F(PluginSampleTest, GivesTheEmulationsLayersForEverySize) {
  for (const int64_t count : {0, 1, 31, 32, 33, 300, 3000}) {
    for (const int32_t fanout : {-1, 0, 3, 10, 100}) {
      Layer host(count);
      const HearthCudaSampleLayer sample =
          Emulate(Topology(), count, fanout, host);
      const HearthCudaSampleLayer device = Run(sample);
      const auto num_edges = static_cast<size_t>(sample.num_edges);
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
