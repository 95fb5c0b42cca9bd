#include "engine/sample/dispatch_spool.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
// For each target, its nodes in the order of visits.
using Lists = std::map<uint32_t, std::vector<NodeId>>;

constexpr DispatchOptions kOptions = {
    .num_partitions = 7, .partition_nodes = 150, .block_bytes = 256};

class DispatchSpoolTest : public ::testing::Test {
 protected:
  static absl::Status Collect(DispatchSpool& spool, Lists& lists) {
    for (int64_t i = 0; i < kOptions.num_partitions; ++i) {
      const absl::Status status = spool.ForEach(
          i, [&](uint32_t target, absl::Span<const uint32_t> nodes) {
            for (const uint32_t node : nodes) {
              EXPECT_LT(node, kOptions.partition_nodes);
              lists[target].push_back(i * kOptions.partition_nodes + node);
            }
            return absl::OkStatus();
          });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Lists Fill(DispatchSpool& spool) {
    RandomStream random(1, RandomPurpose::kGenerator);
    Lists lists;
    for (uint32_t target = 0; target < 40; ++target) {
      std::vector<NodeId> nodes;
      for (NodeId node = 0; node < 1000; ++node) {
        if (random.Below(1 + target % 9) == 0) nodes.push_back(node);
      }
      EXPECT_TRUE(spool.Add(target, nodes).ok());
      lists[target] = std::move(nodes);
    }
    EXPECT_TRUE(spool.EndAdding().ok());
    return lists;
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("scratch");
};

TEST_F(DispatchSpoolTest, TurnsListsIntoThoseOfPartitions) {
  auto spool = *DispatchSpool::Create(posix_, path_, kOptions);
  const Lists expected = Fill(*spool);
  Lists lists;
  ASSERT_TRUE(Collect(*spool, lists).ok());
  EXPECT_EQ(lists, expected);
  spool.reset();
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
}

TEST_F(DispatchSpoolTest, NothingAddedIsNothingVisited) {
  const auto spool = *DispatchSpool::Create(posix_, path_, kOptions);
  ASSERT_TRUE(spool->Add(3, {}).ok());
  ASSERT_TRUE(spool->EndAdding().ok());
  Lists lists;
  ASSERT_TRUE(Collect(*spool, lists).ok());
  EXPECT_TRUE(lists.empty());
}

TEST_F(DispatchSpoolTest, DamageIsFound) {
  const auto spool = *DispatchSpool::Create(faulty_, path_, kOptions);
  const Lists expected = Fill(*spool);
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  Lists lists;
  ASSERT_TRUE(Collect(*spool, lists).ok());
  EXPECT_EQ(lists, expected);
  faulty_.Inject({.for_good = true,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
  const absl::Status status = Collect(*spool, lists);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(path_), absl::string_view::npos);
}

TEST_F(DispatchSpoolTest, ErrorsOfTheVisitorAreReturned) {
  const auto spool = *DispatchSpool::Create(posix_, path_, kOptions);
  Fill(*spool);
  EXPECT_TRUE(absl::IsCancelled(
      spool->ForEach(2, [](uint32_t, absl::Span<const uint32_t>) {
        return absl::CancelledError("enough");
      })));
}

}  // namespace
}  // namespace hearth::sample
