#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/process.h"
#include "engine/base/random.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/testing/naive_partition.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/list_graph.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

class PartitionMemoryTest : public PartitionTest {
 protected:
  static constexpr int64_t kNodes = 2000;
  static constexpr int64_t kHubNeighbors = 24'000'000;
  static constexpr PartitionOptions kOptions = {.parts = 4};

  /// Writes a graph whose edges, but a few, all lead to one node, and frees it.
  /// Returns the naive partition.
  std::vector<uint16_t> StoreHub() {
    RandomStream random(1, RandomPurpose::kGenerator);
    store::ListGraph graph;
    std::vector<NodeId> list;
    for (NodeId node = 0; node < kNodes; ++node) {
      list.resize(node == 700 ? kHubNeighbors : random.Below(5));
      for (NodeId& neighbor : list) {
        neighbor = static_cast<NodeId>(random.Below(kNodes));
      }
      graph.Append(list);
    }
    dataset_ = Store(graph);
    return NaivePartition(graph, {}, kOptions);
  }

  std::unique_ptr<store::Dataset> dataset_;
};

// The hub's list is larger than the memory that partitioning may take, and its
// part's lists are larger than a window.
TEST_F(PartitionMemoryTest, HubsTakeNone) {
  const std::vector<uint16_t> expected = StoreHub();
  const PartitionShape shape = {
      .nodes = kNodes, .edges = dataset_->manifest().edge_types[0].num_edges};
  constexpr int kThreads = 2;
  const uint64_t limit = PartitionMemory(shape, kOptions, kThreads);
  ASSERT_LT(limit, kHubNeighbors * sizeof(NodeId));
  const uint64_t before = ReadProcessMemory().anonymous_bytes;
  uint64_t most = before;
  const auto summary = WritePartition(
      Posix(), *dataset_, {}, kOptions,
      {.folder = Folder(),
       .threads = kThreads,
       .progress = [&](const PartitionProgress&) {
         most = std::max(most, ReadProcessMemory().anonymous_bytes);
       }});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_GT(most, before);
  EXPECT_LE(most - before, limit);
  EXPECT_EQ(*Open()->LoadParts(), expected);
}

}  // namespace
}  // namespace hearth::plan
