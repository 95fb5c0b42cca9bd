#include "engine/job/data/nodes_file.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

namespace fs = std::filesystem;
using store::NodeId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Nodes = std::vector<NodeId>;

constexpr int64_t kNumNodes = 10;

absl::Span<const std::byte> BytesOf(const Nodes& nodes) {
  return {reinterpret_cast<const std::byte*>(nodes.data()),
          nodes.size() * sizeof(NodeId)};
}

class NodesFileTest : public ::testing::Test {
 protected:
  NodesFileTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }

  NodesFile FileOf(const Nodes& nodes) const {
    Sha256 digest;
    digest.Update(BytesOf(nodes));
    return {.path = root_ + "/nodes.npy",
            .count = std::ssize(nodes),
            .sha256 = digest.HexDigest()};
  }

  // Writes `pieces` as the file `announced`.
  absl::Status Write(const NodesFile& announced,
                     const std::vector<Nodes>& pieces) {
    auto writer = NodesFileWriter::Create(files_, announced,
                                          announced.path + ".0.tmp", kNumNodes);
    absl::Status status = writer.status();
    for (const Nodes& piece : pieces) {
      if (status.ok()) status = (*writer)->Append(BytesOf(piece));
    }
    return status.ok() ? (*writer)->Finish() : status;
  }

  absl::StatusOr<Nodes> Load(const NodesFile& file) {
    return LoadNodesFile(files_, file, kNumNodes);
  }

  const std::string root_ = ::testing::TempDir() + "nodes_file";
  io::FileSystem& files_ = io::FileSystem::Posix();
};

TEST_F(NodesFileTest, HasTheNodesInTheirOrder) {
  const NodesFile file = FileOf({7, 0, 9, 3});
  ASSERT_EQ(Write(file, {{7, 0}, {}, {9, 3}}), absl::OkStatus());
  const auto nodes = Load(file);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(*nodes, ElementsAre(7, 0, 9, 3));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(NodesFileTest, AWrongIdIsNamedByItsPosition) {
  const auto refusal = [&](const std::vector<Nodes>& pieces) {
    const absl::Status status = Write(FileOf({1, 2, 3}), pieces);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    // Nothing is left.
    EXPECT_TRUE(fs::is_empty(root_));
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({{1, 2}, {-1}}),
              HasSubstr("ids[2]: must be from 0 to 9, not -1"));
  EXPECT_THAT(refusal({{1, 10}}), HasSubstr("ids[1]: must be"));
  EXPECT_THAT(refusal({{5}, {2, 5}}), HasSubstr("ids[2]: 5 is there twice"));
  EXPECT_THAT(refusal({{1, 2}}),
              HasSubstr("must be 3, as the job says, not 2"));
  EXPECT_THAT(refusal({{1, 2, 3, 4}}), HasSubstr("and are more"));
  EXPECT_THAT(refusal({{3, 2, 1}}), HasSubstr("SHA-256"));
}

TEST_F(NodesFileTest, IdsHaveEightBytes) {
  auto writer =
      NodesFileWriter::Create(files_, FileOf({1}), root_ + "/x.tmp", kNumNodes);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(
      absl::IsInvalidArgument((*writer)->Append(BytesOf({1}).first(7))));
}

TEST_F(NodesFileTest, ThereAreNotMoreNodesThanInTheGraph) {
  NodesFile file = FileOf({1});
  file.count = kNumNodes + 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Write(file, {})));
}

TEST_F(NodesFileTest, DamageIsNoticed) {
  const NodesFile file = FileOf({4, 5, 6});
  ASSERT_EQ(Write(file, {{4, 5, 6}}), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(
      LoadNodesFile(files_, file, /*num_nodes=*/6).status()))
      << "they are of another graph";
  {
    std::fstream out(file.path, std::ios::in | std::ios::out);
    out.seekp(-8, std::ios::end);
    out.put(7);
  }
  EXPECT_TRUE(absl::IsDataLoss(Load(file).status())) << Load(file).status();
  fs::resize_file(file.path, fs::file_size(file.path) - 1);
  EXPECT_TRUE(absl::IsDataLoss(Load(file).status())) << Load(file).status();
  fs::remove(file.path);
  EXPECT_TRUE(absl::IsNotFound(Load(file).status()));
}

}  // namespace
}  // namespace hearth::job
