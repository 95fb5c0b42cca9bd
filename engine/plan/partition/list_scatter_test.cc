#include "engine/plan/partition/list_scatter.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/partition/topology_scan.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

using store::NodeId;

using Lists = std::vector<std::pair<NodeId, std::vector<NodeId>>>;

/// All lists of a reader, those that windows cut joined again.
Lists ReadAll(ListReader& reader) {
  Lists lists;
  ListWindow window;
  bool goes_on = false;
  while (true) {
    const absl::Status status = reader.Next(window);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok() || window.empty()) break;
    EXPECT_LE(window.size(), ListWindow::kMaxLists);
    EXPECT_LE(window.neighbors.size(), ListWindow::kMaxNeighbors);
    for (size_t i = 0; i < window.size(); ++i) {
      if (!goes_on) lists.push_back({window.nodes[i], {}});
      EXPECT_EQ(lists.back().first, window.nodes[i]);
      const auto list = window.list(i);
      lists.back().second.insert(lists.back().second.end(), list.begin(),
                                 list.end());
      goes_on = !window.ends_here(i);
    }
  }
  EXPECT_FALSE(goes_on);
  return lists;
}

class ListScatterTest : public ::testing::TestWithParam<int> {
 protected:
  int id_bytes() const { return GetParam(); }

  std::unique_ptr<ListScatter> Create(io::FileSystem& files, int parts) {
    auto scatter = ListScatter::Create(files, scratch_.Path("scatter"), parts,
                                       id_bytes(), 1 << 20);
    EXPECT_TRUE(scatter.ok()) << scatter.status();
    return *std::move(scatter);
  }

  const io::ScratchDirectory scratch_;
};

// Short lists, empty lists, and hubs larger than a chunk, which are also
// appended in pieces.
TEST_P(ListScatterTest, GivesEachPartItsListsInOrder) {
  RandomStream random(1, RandomPurpose::kGenerator);
  constexpr int kParts = 5;
  std::vector<Lists> expected(kParts);
  const auto scatter = Create(io::FileSystem::Posix(), kParts);
  const NodeId largest = id_bytes() == 4 ? INT32_MAX : int64_t{1} << 40;
  int64_t neighbors = 0;
  constexpr int64_t kLists = 12'000;
  for (int64_t i = 0; i < kLists; ++i) {
    // Part 4 has no lists.
    const auto part = static_cast<int>(random.Below(kParts - 1));
    const NodeId node = largest - kLists + i;
    std::vector<NodeId> list(i % 1000 == 0 ? random.Below(400'000)
                                           : random.Below(20));
    for (NodeId& neighbor : list) {
      neighbor = static_cast<NodeId>(random.Below(largest));
    }
    neighbors += std::ssize(list);
    const size_t half = random.Below(list.size() + 1);
    const auto all = absl::MakeConstSpan(list);
    ASSERT_TRUE(scatter->Append(part, node, all.first(half), false).ok());
    ASSERT_TRUE(scatter->Append(part, node, all.subspan(half), true).ok());
    expected[part].push_back({node, std::move(list)});
  }
  const auto lists = scatter->Finish();
  ASSERT_TRUE(lists.ok()) << lists.status();
  for (int part = 0; part < kParts; ++part) {
    // A part can be read any number of times.
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(ReadAll(**(*lists)->Read(part)), expected[part]);
    }
  }
  EXPECT_LE(io::FileSystem::Posix().Stat(scratch_.Path("scatter"))->size_bytes,
            ListScatter::FileBytes(2 * kLists, neighbors, kParts, id_bytes()));
}

TEST_P(ListScatterTest, NamesDamage) {
  const auto scatter = Create(io::FileSystem::Posix(), 2);
  ASSERT_TRUE(scatter->Append(1, 7, {1, 2, 3}, true).ok());
  const auto lists = scatter->Finish();
  ASSERT_TRUE(lists.ok()) << lists.status();
  const auto file = *io::FileSystem::Posix().Create(scratch_.Path("scatter"));
  const std::vector<std::byte> zeros(4096);
  ASSERT_TRUE(file->Append(zeros).ok());
  ASSERT_TRUE(file->Close().ok());
  ListWindow window;
  const absl::Status status = (*(*lists)->Read(1))->Next(window);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("scatter: the chunk at byte 0"),
            std::string::npos)
      << status;
}

INSTANTIATE_TEST_SUITE_P(Ids, ListScatterTest, ::testing::Values(4, 8));

}  // namespace
}  // namespace hearth::plan
