#include "engine/strategy/superbatch/neighbor_cache_file.h"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/sample/neighbor_cache.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

class NeighborCacheFileTest : public ::testing::Test {
 protected:
  NeighborCacheFileTest() {
    // Nodes 0 and 1 are each other's neighbors.
    const std::vector<int32_t> indices = {1, 0};
    EXPECT_TRUE(
        io::WriteFileAtomically(
            faulty_, topology_.indices_path,
            std::string(reinterpret_cast<const char*>(indices.data()), 8))
            .ok());
  }

  std::unique_ptr<NeighborCacheFile> Make() {
    return std::make_unique<NeighborCacheFile>(faulty_, topology_, path_, 1000);
  }

  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("cache");
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  const std::vector<int64_t> indptr_ = {0, 1, 2};
  const sample::StoredTopology topology_ = {
      .indptr = indptr_, .indices_path = scratch_.Path("indices")};
};

TEST_F(NeighborCacheFileTest, IsInMemoryOnceMadeAndOnceLoaded) {
  const auto file = Make();
  ASSERT_TRUE(file->Prepare({}).ok());
  EXPECT_EQ(file->cache().num_lists(), 2);
  file->Unload();
  EXPECT_EQ(file->cache().memory_bytes(), 0u);
  ASSERT_TRUE(file->Load().ok());
  EXPECT_EQ(file->cache().At(file->cache().Find(0)), 1);
}

TEST_F(NeighborCacheFileTest, IsMadeOnceAndReadWhenNeeded) {
  const auto file = Make();
  ASSERT_TRUE(file->Prepare({}).ok());
  const size_t calls = faulty_.calls().size();
  ASSERT_TRUE(file->Load().ok());
  ASSERT_TRUE(file->Prepare({}).ok());
  EXPECT_EQ(faulty_.calls().size(), calls) << "it is in memory";
  file->Unload();
  ASSERT_TRUE(file->Prepare({}).ok());
  for (size_t i = calls; i < faulty_.calls().size(); ++i) {
    EXPECT_EQ(faulty_.calls()[i].path, path_) << "not the indices";
  }
}

TEST_F(NeighborCacheFileTest, TheFileGoesWithIt) {
  auto file = Make();
  ASSERT_TRUE(file->Prepare({}).ok());
  EXPECT_TRUE(faulty_.Stat(path_).ok());
  file.reset();
  EXPECT_TRUE(absl::IsNotFound(faulty_.Stat(path_).status()));
}

TEST_F(NeighborCacheFileTest, AfterAnErrorItIsMadeAnew) {
  const auto file = Make();
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = file->Prepare({});
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
  EXPECT_TRUE(absl::IsCancelled(Make()->Prepare(stop.get_token())));
}

}  // namespace
}  // namespace hearth::strategy
