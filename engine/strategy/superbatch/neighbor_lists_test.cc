#include "engine/strategy/superbatch/neighbor_lists.h"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kRoomy = 1000;

class NeighborCacheFileTest : public ::testing::Test {
 protected:
  NeighborCacheFileTest() {
    // Nodes 0 and 1 are each other's neighbors.
    const std::vector<int32_t> indices = {1, 0};
    EXPECT_TRUE(
        io::WriteFileAtomically(
            faulty_, topology_.files[0].path,
            std::string(reinterpret_cast<const char*>(indices.data()), 8))
            .ok());
  }

  std::unique_ptr<NeighborCacheFile> Make(
      std::shared_ptr<const plan::Partition> ranking = nullptr) {
    return std::make_unique<NeighborCacheFile>(
        faulty_, topology_, scratch_.path(), std::move(ranking));
  }

  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("neighbor_cache");
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  const std::vector<int64_t> indptr_ = {0, 1, 2};
  const store::StoredTopology topology_ = store::StoredTopology::Single(
      indptr_, {.path = scratch_.Path("indices")});
};

TEST_F(NeighborCacheFileTest, IsInMemoryOnceMadeAndOnceLoaded) {
  const auto file = Make();
  ASSERT_TRUE(file->Prepare(kRoomy, {}).ok());
  EXPECT_EQ(file->cache().num_lists(), 2);
  file->Unload();
  EXPECT_EQ(file->cache().memory_bytes(), 0u);
  ASSERT_TRUE(file->Load().ok());
  EXPECT_EQ(file->cache().At(file->cache().Find(0)), 1);
}

TEST_F(NeighborCacheFileTest, IsMadeOnceAndReadWhenNeeded) {
  const auto file = Make();
  ASSERT_TRUE(file->Prepare(kRoomy, {}).ok());
  const size_t calls = faulty_.calls().size();
  ASSERT_TRUE(file->Load().ok());
  ASSERT_TRUE(file->Prepare(kRoomy, {}).ok());
  EXPECT_EQ(faulty_.calls().size(), calls) << "it is in memory";
  file->Unload();
  ASSERT_TRUE(file->Prepare(kRoomy, {}).ok());
  for (size_t i = calls; i < faulty_.calls().size(); ++i) {
    EXPECT_EQ(faulty_.calls()[i].path, path_) << "not the indices";
  }
}

TEST_F(NeighborCacheFileTest, APartitionRanksTheListsOfAFileOfItsOwn) {
  // Node 1 is a neighbor of all, and the one node of part 1.
  const std::vector<int64_t> indptr = {0, 1, 2, 4};
  const std::vector<int32_t> indices = {1, 1, 0, 1};
  ASSERT_TRUE(
      io::WriteFileAtomically(
          faulty_, topology_.files[0].path,
          std::string(reinterpret_cast<const char*>(indices.data()), 16))
          .ok());
  const auto topology =
      store::StoredTopology::Single(indptr, {.path = topology_.files[0].path});
  const auto partition = std::make_shared<hearth::testing::MemoryPartition>(
      store::Topology{indptr, absl::Span<const int32_t>(indices)},
      std::vector<uint16_t>{0, 1, 0}, std::vector<store::NodeId>());
  const auto inside = [&](std::shared_ptr<const plan::Partition> ranking) {
    NeighborCacheFile file(faulty_, topology, scratch_.path(),
                           std::move(ranking));
    // Memory for one neighbor.
    EXPECT_TRUE(file.Prepare(3 * 8 + 4, {}).ok());
    EXPECT_EQ(file.cache().num_lists(), 1);
    for (store::NodeId node = 0; node < 3; ++node) {
      if (file.cache().Find(node) == 0) return node;
    }
    return store::NodeId{-1};
  };
  EXPECT_EQ(inside(nullptr), 1) << "three out-neighbors, one in-neighbor";
  EXPECT_EQ(inside(partition), 0) << "its neighbor is in another part";
  const auto ratio = Make();
  const auto cross = Make(partition);
  ASSERT_TRUE(ratio->Prepare(0, {}).ok());
  ASSERT_TRUE(cross->Prepare(0, {}).ok());
  EXPECT_TRUE(faulty_.Stat(path_).ok());
  EXPECT_TRUE(faulty_.Stat(path_ + ".cross").ok());
}

TEST_F(NeighborCacheFileTest, TheFileGoesWithIt) {
  auto file = Make();
  ASSERT_TRUE(file->Prepare(kRoomy, {}).ok());
  EXPECT_TRUE(faulty_.Stat(path_).ok());
  file.reset();
  EXPECT_TRUE(absl::IsNotFound(faulty_.Stat(path_).status()));
}

TEST_F(NeighborCacheFileTest, AfterAnErrorItIsMadeAnew) {
  const auto file = Make();
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = file->Prepare(kRoomy, {});
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
  }
  EXPECT_EQ(file->cache().num_lists(), 2);
  file->Unload();
  faulty_.Inject({});
  EXPECT_TRUE(absl::IsUnavailable(file->Load()));
  EXPECT_TRUE(file->Load().ok());
  EXPECT_EQ(file->cache().num_lists(), 2);
}

TEST_F(NeighborCacheFileTest, AStopEndsTheBuilding) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Make()->Prepare(kRoomy, stop.get_token())));
}

}  // namespace
}  // namespace hearth::strategy
