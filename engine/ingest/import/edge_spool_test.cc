#include "engine/ingest/import/edge_spool.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/io/faulty_file_system.h"
#include "engine/io/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;

constexpr int64_t kWideId = INT32_MAX;

class EdgeSpoolTest : public testing::Test {
 protected:
  std::unique_ptr<EdgeSource> Spool(
      const std::vector<std::pair<int64_t, int64_t>>& edges) {
    auto spool = *EdgeSpool::Create(context_);
    for (const auto& [source, destination] : edges) {
      EXPECT_TRUE(spool->Add(source, destination).ok());
    }
    EXPECT_EQ(spool->num_edges(), static_cast<int64_t>(edges.size()));
    return *spool->Finish();
  }

  io::ScratchDirectory folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  ImportProgress progress_;
  ImportContext context_{
      files_, 1 << 20, folder_.Path("scratch"), progress_, {}};
  EdgeBlock block_;
};

TEST_F(EdgeSpoolTest, NarrowEdgesTakeEightBytes) {
  const auto edges = Spool({{1, 2}, {kWideId - 1, 0}});
  EXPECT_EQ(edges->num_edges(), 2);
  EXPECT_EQ(files_.Stat(folder_.Path("scratch/0.edges"))->size_bytes, 16u);
  ASSERT_TRUE(edges->Read(0, 2, block_).ok());
  EXPECT_THAT(block_.sources, ElementsAre(1, kWideId - 1));
  EXPECT_THAT(block_.destinations, ElementsAre(2, 0));
}

TEST_F(EdgeSpoolTest, WideEdgesFollowNarrowOnes) {
  const auto edges =
      Spool({{1, 2}, {3, 4}, {kWideId, 5}, {6, 7}, {8, int64_t{1} << 40}});
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(edges->Read(0, 1, block_).ok());
    EXPECT_THAT(block_.sources, ElementsAre(1));
    ASSERT_TRUE(edges->Read(1, 3, block_).ok());
    EXPECT_THAT(block_.sources, ElementsAre(3, kWideId, 6));
    EXPECT_THAT(block_.destinations, ElementsAre(4, 5, 7));
    ASSERT_TRUE(edges->Read(4, 1, block_).ok());
    EXPECT_THAT(block_.destinations, ElementsAre(int64_t{1} << 40));
  }
}

TEST_F(EdgeSpoolTest, WideFromTheFirstOn) {
  const auto edges = Spool({{kWideId, kWideId}, {0, 0}});
  ASSERT_TRUE(edges->Read(0, 2, block_).ok());
  EXPECT_THAT(block_.sources, ElementsAre(kWideId, 0));
}

TEST_F(EdgeSpoolTest, Empty) {
  const auto edges = Spool({});
  EXPECT_EQ(edges->num_edges(), 0);
}

TEST_F(EdgeSpoolTest, MoreThanTheBuffer) {
  std::vector<std::pair<int64_t, int64_t>> many;
  for (int64_t i = 0; i < 100'000; ++i) many.emplace_back(i, i / 2);
  const auto edges = Spool(many);
  ASSERT_TRUE(edges->Read(0, 100'000, block_).ok());
  EXPECT_EQ(block_.sources[99'999], 99'999);
  EXPECT_EQ(block_.destinations[99'999], 49'999);
}

TEST_F(EdgeSpoolTest, DamageIsNoticed) {
  const auto edges = Spool({{1, 2}});
  files_.Inject({.for_good = true, .effect = io::Effect::kCorruptRead});
  EXPECT_TRUE(absl::IsDataLoss(edges->Read(0, 1, block_)));
}

}  // namespace
}  // namespace hearth::ingest
