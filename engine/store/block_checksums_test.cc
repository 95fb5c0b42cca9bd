#include "engine/store/block_checksums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/crc32c.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

constexpr uint32_t kBlock = 512;
constexpr uint64_t kFileId = 99;

std::vector<std::byte> Data(size_t size) {
  std::vector<std::byte> data(size);
  for (size_t i = 0; i < size; ++i) {
    data[i] = static_cast<std::byte>(i * 31 + i / 256);
  }
  return data;
}

class BlockChecksumsTest : public testing::Test {
 protected:
  /// Writes the checksums of `data`, handed over in pieces.
  BlockChecksumWriter::Summary Write(const std::vector<std::byte>& data,
                                     size_t piece) {
    auto writer = *BlockChecksumWriter::Create(files_, path_, kFileId, kBlock);
    for (size_t at = 0; at < data.size(); at += piece) {
      EXPECT_TRUE(writer
                      ->Append(absl::MakeConstSpan(data).subspan(
                          at, std::min(piece, data.size() - at)))
                      .ok());
    }
    return *writer->Finish();
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("crc");
};

TEST(NumBlocksTest, TheLastMayBeShort) {
  EXPECT_EQ(NumBlocks(0, 4096), 0u);
  EXPECT_EQ(NumBlocks(1, 4096), 1u);
  EXPECT_EQ(NumBlocks(4096, 4096), 1u);
  EXPECT_EQ(NumBlocks(4097, 4096), 2u);
  EXPECT_EQ(NumBlocks(UINT64_MAX, 1 << 20), uint64_t{1} << 44);
}

TEST_F(BlockChecksumsTest, DoNotDependOnThePieces) {
  const std::vector<std::byte> data = Data(10 * kBlock + 100);
  const auto whole = Write(data, data.size());
  for (const size_t piece : {1, 511, 512, 513, 3000}) {
    const auto pieces = Write(data, piece);
    EXPECT_EQ(pieces.file_crc32c, whole.file_crc32c);
    EXPECT_EQ(pieces.sha256, whole.sha256);
  }
}

TEST_F(BlockChecksumsTest, MatchEachBlockAtItsPlaceOnly) {
  const std::vector<std::byte> data = Data(3 * kBlock + 100);
  const auto summary = Write(data, 1000);
  const auto checksums =
      BlockChecksums::Load(files_, path_, 4, summary.file_crc32c);
  ASSERT_TRUE(checksums.ok()) << checksums.status();
  for (uint64_t block = 0; block < 4; ++block) {
    const auto bytes =
        absl::MakeConstSpan(data).subspan(block * kBlock, kBlock);
    EXPECT_TRUE(checksums->Matches(bytes, kFileId, block));
    EXPECT_FALSE(checksums->Matches(bytes, kFileId + 1, block));
    EXPECT_FALSE(checksums->Matches(bytes, kFileId, (block + 1) % 4));
    EXPECT_FALSE(
        checksums->Matches(bytes.first(bytes.size() - 1), kFileId, block));
  }
}

TEST_F(BlockChecksumsTest, NothingHasNone) {
  const auto summary = Write({}, 1);
  EXPECT_EQ(files_.Stat(path_)->size_bytes, 0u);
  EXPECT_TRUE(BlockChecksums::Load(files_, path_, 0, summary.file_crc32c).ok());
}

TEST_F(BlockChecksumsTest, ADamagedFileIsDataLossAfterASecondReading) {
  const auto summary = Write(Data(5000), 5000);
  const auto load = [&](bool for_good) {
    files_.Inject({.for_good = for_good, .effect = io::Effect::kCorruptRead});
    return BlockChecksums::Load(files_, path_, 10, summary.file_crc32c)
        .status();
  };
  EXPECT_TRUE(load(false).ok());
  EXPECT_EQ(files_.hits(), 1);
  EXPECT_TRUE(absl::IsDataLoss(load(true)));
  EXPECT_EQ(files_.hits(), 2);
}

TEST_F(BlockChecksumsTest, AWrongNumberOfBlocksIsDataLoss) {
  const auto summary = Write(Data(5000), 5000);
  for (const uint64_t blocks : {0, 9, 11}) {
    EXPECT_TRUE(absl::IsDataLoss(
        BlockChecksums::Load(files_, path_, blocks, summary.file_crc32c)
            .status()));
  }
}

TEST_F(BlockChecksumsTest, AreWrittenInSeveralPartsWhenMany) {
  const size_t blocks = 150'000;
  auto writer = *BlockChecksumWriter::Create(files_, path_, kFileId, kBlock);
  const std::vector<std::byte> data(kBlock * 1000);
  for (size_t i = 0; i < blocks / 1000; ++i) {
    ASSERT_TRUE(writer->Append(data).ok());
  }
  const auto summary = *writer->Finish();
  const auto checksums =
      BlockChecksums::Load(files_, path_, blocks, summary.file_crc32c);
  ASSERT_TRUE(checksums.ok()) << checksums.status();
  EXPECT_TRUE(checksums->Matches(absl::MakeConstSpan(data).first(kBlock),
                                 kFileId, blocks - 1));
}

}  // namespace
}  // namespace hearth::store
