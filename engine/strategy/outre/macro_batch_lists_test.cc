#include "engine/strategy/outre/macro_batch_lists.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/sample/neighbor_lists.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::strategy {
namespace {

using hearth::testing::MemoryPartition;
using store::NodeId;

constexpr int64_t kNodes = 500;

// Isolated nodes, and up to seven neighbors of others; nodes in parts at
// random, of which the last has one.
class MacroBatchListsTest : public ::testing::TestWithParam<bool> {
 protected:
  MacroBatchListsTest() {
    RandomStream random(3, RandomPurpose::kGenerator);
    for (NodeId node = 0; node < kNodes; ++node) {
      for (uint64_t left = random.Below(8); left > 0; --left) {
        indices_.push_back(static_cast<int64_t>(random.Below(kNodes)));
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
      part_of_.push_back(static_cast<uint16_t>(random.Below(6)));
    }
    part_of_[77] = 6;
    narrow_.assign(indices_.begin(), indices_.end());
    store::Topology topology = {indptr_, absl::Span<const int64_t>(indices_)};
    if (!GetParam()) topology.indices = absl::Span<const int32_t>(narrow_);
    partition_ = std::make_unique<MemoryPartition>(topology, part_of_,
                                                   std::vector<NodeId>());
  }

  void ExpectListsOf(const std::vector<uint16_t>& parts,
                     const MacroBatchLists& lists) const {
    std::vector<bool> chosen(7);
    for (const uint16_t part : parts) chosen[part] = true;
    for (NodeId node = 0; node < kNodes; ++node) {
      const std::optional<sample::NeighborList> list = lists.Find(node);
      ASSERT_EQ(list.has_value(), chosen[part_of_[node]]) << node;
      if (!list.has_value()) continue;
      for (int64_t i = indptr_[node]; i < indptr_[node + 1]; ++i) {
        EXPECT_EQ((*list)[i - indptr_[node]], indices_[i]);
      }
    }
  }

  std::vector<int64_t> indptr_ = {0};
  std::vector<int64_t> indices_;
  std::vector<int32_t> narrow_;
  std::vector<uint16_t> part_of_;
  std::unique_ptr<MemoryPartition> partition_;
};

TEST_P(MacroBatchListsTest, HoldsTheListsOfItsPartsAndNoOthers) {
  for (const auto& parts :
       {std::vector<uint16_t>{}, {6}, {2}, {4, 0}, {5, 6, 3, 1, 0, 2, 4}}) {
    const auto lists = MacroBatchLists::Read(*partition_, parts);
    ASSERT_TRUE(lists.ok()) << lists.status();
    ExpectListsOf(parts, **lists);
    (*lists)->Prefetch(5);
  }
}

TEST_P(MacroBatchListsTest, ReadsEachPartOnceAndTellsItsMemoryBefore) {
  for (const auto& parts :
       {std::vector<uint16_t>{}, {6}, {4, 0}, {5, 6, 3, 1, 0, 2, 4}}) {
    const int64_t reads = partition_->reads();
    const auto lists = MacroBatchLists::Read(*partition_, parts);
    ASSERT_TRUE(lists.ok()) << lists.status();
    EXPECT_EQ(partition_->reads() - reads, std::ssize(parts));
    EXPECT_EQ((*lists)->memory_bytes(),
              MacroBatchLists::MemoryBytes(*partition_, parts));
  }
}

TEST_P(MacroBatchListsTest, EndsWithTheErrorOfAPart) {
  partition_->SetHook([](int part) {
    return part == 4 ? absl::DataLossError("part 4") : absl::OkStatus();
  });
  EXPECT_TRUE(MacroBatchLists::Read(*partition_, {1, 2}).ok());
  EXPECT_EQ(MacroBatchLists::Read(*partition_, {1, 4, 2}).status(),
            absl::DataLossError("part 4"));
}

INSTANTIATE_TEST_SUITE_P(NarrowAndWide, MacroBatchListsTest, ::testing::Bool());

}  // namespace
}  // namespace hearth::strategy
