#include "engine/ingest/source/edge_source.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/crc32c.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Sources in .npy files are tested through formats/numpy_test.

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

// 4-byte ids up to 2^31 - 1 nodes.
INSTANTIATE_TEST_SUITE_P(Sizes, ScratchEdgesTest,
                         testing::Values(10, (int64_t{1} << 31) - 1,
                                         int64_t{1} << 31, int64_t{1} << 40));

TEST(ScratchEdgeBytesTest, IdsAreNarrowWhereTheyFit) {
  constexpr int64_t kMany = int64_t{1} << 31;
  EXPECT_EQ(ScratchEdgeBytes({kMany - 1, kMany - 1}), 8);
  EXPECT_EQ(ScratchEdgeBytes({kMany, 1}), 16);
  EXPECT_EQ(ScratchEdgeBytes({1, kMany}), 16);
}

}  // namespace
}  // namespace hearth::ingest
