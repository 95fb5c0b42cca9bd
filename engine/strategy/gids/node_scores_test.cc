#include "engine/strategy/gids/node_scores.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using Nodes = std::vector<store::NodeId>;

TEST(HottestNodesTest, TakesTheHottestAndOfEqualOnesTheFirst) {
  const NodeScores scores = {0.5f, 2, 0.5f, 0, 2, 1};
  EXPECT_EQ(HottestNodes(scores, 0), Nodes());
  EXPECT_EQ(HottestNodes(scores, 1), Nodes({1}));
  EXPECT_EQ(HottestNodes(scores, 3), Nodes({1, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 4), Nodes({0, 1, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 6), Nodes({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(HottestNodes(scores, 100), Nodes({0, 1, 2, 3, 4, 5}));
}

TEST(NodeScoresTest, FilesGiveBackWhatWasWritten) {
  io::FileSystem& files = io::FileSystem::Posix();
  const io::ScratchDirectory scratch;
  const std::string path = scratch.Path("scores");
  EXPECT_TRUE(absl::IsNotFound(ReadNodeScores(files, path, 4).status()));
  const NodeScores scores = {1, 0.25f, 0, 7};
  ASSERT_TRUE(WriteNodeScores(files, path, scores).ok());
  const auto read = ReadNodeScores(files, path, 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, scores);
  EXPECT_EQ(files.Stat(path)->size_bytes, NodeScoresFileBytes(4));
  EXPECT_TRUE(absl::IsDataLoss(ReadNodeScores(files, path, 5).status()))
      << "of another graph";
}

}  // namespace
}  // namespace hearth::strategy
