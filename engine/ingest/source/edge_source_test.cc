#include "engine/ingest/source/edge_source.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/crc32c.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// formats/numpy_test covers edges in .npy files.

namespace hearth::ingest {

namespace {

using testing::ElementsAre;

class ScratchEdgesTest : public testing::TestWithParam<int64_t> {
 protected:
  std::unique_ptr<io::ReadableFile> Write(const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(
        io::WritePiecesAtomically(files_, scratch_.Path("s"), {bytes}).ok());
    return *files_.OpenForRead(scratch_.Path("s"));
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
};

TEST_P(ScratchEdgesTest, AreReadAsTheyWereWritten) {
  const int64_t n = GetParam();
  const EdgeEnds ends{n, n};
  std::vector<std::byte> bytes;
  AppendScratchEdge(ends, 0, n - 1, bytes);
  AppendScratchEdge(ends, n - 1, 3, bytes);
  AppendScratchEdge(ends, 7, 7, bytes);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), 3 * ScratchEdgeBytes(ends));
  const auto file = Write(bytes);
  const auto extent =
      absl::MakeConstSpan(bytes).subspan(ScratchEdgeBytes(ends));
  const auto edges = NewScratchEdgeSource(*file, ends, {1, 2, Crc32c(extent)});
  EXPECT_EQ(edges->num_edges(), 2);
  EdgeBlock block;
  ASSERT_TRUE(edges->Read(0, 2, block).ok());
  EXPECT_THAT(block.sources, ElementsAre(n - 1, 7));
  EXPECT_THAT(block.destinations, ElementsAre(3, 7));
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(edges->Read(0, 1, block).ok());
    EXPECT_THAT(block.sources, ElementsAre(n - 1));
    ASSERT_TRUE(edges->Read(1, 1, block).ok());
    EXPECT_THAT(block.sources, ElementsAre(7));
  }
}

TEST_P(ScratchEdgesTest, DamageShowsAtTheEndOfThePass) {
  const int64_t n = GetParam();
  const EdgeEnds ends{n, n};
  std::vector<std::byte> bytes;
  AppendScratchEdge(ends, 5, 8, bytes);
  AppendScratchEdge(ends, 6, 9, bytes);
  const uint32_t crc = Crc32c(bytes);
  bytes[0] ^= std::byte{1};
  const auto file = Write(bytes);
  const auto edges = NewScratchEdgeSource(*file, ends, {0, 2, crc});
  EdgeBlock block;
  EXPECT_TRUE(edges->Read(0, 1, block).ok());
  const absl::Status status = edges->Read(1, 1, block);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("edges 0 .. 1 are damaged"));
}

// Ids take 4 bytes for up to 2^31 - 1 nodes.
INSTANTIATE_TEST_SUITE_P(Sizes, ScratchEdgesTest,
                         testing::Values(10, (int64_t{1} << 31) - 1,
                                         int64_t{1} << 31, int64_t{1} << 40));

TEST(ScratchEdgeBytesTest, IdsAreNarrowWhereTheyFit) {
  constexpr int64_t kMany = int64_t{1} << 31;
  EXPECT_EQ(ScratchEdgeBytes({kMany - 1, kMany - 1}), 8);
  EXPECT_EQ(ScratchEdgeBytes({kMany, 1}), 16);
  EXPECT_EQ(ScratchEdgeBytes({1, kMany}), 16);
}

/// Edge i joins i and 100 + i; a read that does not follow the one before
/// fails.
class CountedEdges final : public EdgeSource {
 public:
  explicit CountedEdges(int64_t count) : count_(count) {}

  int64_t num_edges() const override { return count_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    EXPECT_TRUE(first == 0 || first == next_) << first;
    EXPECT_LE(first + count, count_);
    next_ = first + count;
    block.sources.clear();
    block.destinations.clear();
    for (int64_t i = first; i < next_; ++i) {
      block.sources.push_back(i);
      block.destinations.push_back(100 + i);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  int64_t next_ = 0;
};

class EdgesWithReverseTest : public testing::TestWithParam<int64_t> {};

TEST_P(EdgesWithReverseTest, EachEdgeAndThenItsReverse) {
  const auto edges = NewEdgesWithReverse(std::make_unique<CountedEdges>(7));
  ASSERT_EQ(edges->num_edges(), 14);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::pair<int64_t, int64_t>> got, wanted;
    for (int64_t first = 0; first < 14; first += GetParam()) {
      EdgeBlock block;
      ASSERT_TRUE(
          edges->Read(first, std::min(GetParam(), 14 - first), block).ok());
      for (size_t i = 0; i < block.size(); ++i) {
        got.emplace_back(block.sources[i], block.destinations[i]);
      }
    }
    for (int64_t i = 0; i < 7; ++i) {
      wanted.emplace_back(i, 100 + i);
      wanted.emplace_back(100 + i, i);
    }
    EXPECT_EQ(got, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, EdgesWithReverseTest,
                         testing::Values(1, 2, 3, 4, 5, 13, 14));

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
