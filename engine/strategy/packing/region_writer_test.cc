#include "engine/strategy/packing/region_writer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/strategy/packing/file_range.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

class RegionWriterTest : public ::testing::Test {
 protected:
  // Appends to a region, in as many pieces as the writer asks for.
  static absl::Status Append(RegionWriter& writer, int64_t region,
                             const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const absl::Span<std::byte> place =
          writer.Begin(region, bytes.size() - at);
      if (place.empty()) return absl::OutOfRangeError("the region is full");
      std::memcpy(place.data(), bytes.data() + at, place.size());
      const absl::Status status = writer.Commit(region, place.size());
      if (!status.ok()) return status;
      at += place.size();
    }
    return absl::OkStatus();
  }

  static std::string RandomBytes(RandomStream& random, uint64_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
    return bytes;
  }

  void RegionsGrowSideBySide(uint64_t block_bytes);

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("regions");
};

TEST_F(RegionWriterTest, RegionsGrowSideBySideInBlocksOfAnySize) {
  for (const uint64_t block :
       {kPageBytes, 3 * kPageBytes, RegionWriter::kMostBlockBytes}) {
    SCOPED_TRACE(block);
    RegionsGrowSideBySide(block);
  }
}

TEST_F(RegionWriterTest, LargeBlocksTakeFewWrites) {
  const auto writes = [&](uint64_t block) {
    const auto file = *faulty_.Create(path_);
    const size_t before = faulty_.calls().size();
    auto writer = *RegionWriter::Make(*file, {{0, 10 * kPageBytes}}, 1, block);
    for (int i = 0; i < 10 * 8; ++i) {
      EXPECT_TRUE(Append(writer, 0, std::string(kPageBytes / 8, 'a')).ok());
    }
    EXPECT_EQ(writer.CheckFull(), absl::OkStatus());
    return faulty_.calls().size() - before;
  };
  EXPECT_EQ(writes(kPageBytes), 10u);
  EXPECT_EQ(writes(4 * kPageBytes), 3u);
}

void RegionWriterTest::RegionsGrowSideBySide(uint64_t block_bytes) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<FileRange> regions;
  std::vector<std::string> expected;
  for (const uint64_t bytes :
       {uint64_t{1}, kPageBytes, kPageBytes + 1, uint64_t{0}, uint64_t{30'000},
        RegionWriter::kStagingBytes + 5000}) {
    regions.push_back(
        {.offset = regions.empty() ? 0 : regions.back().end(), .bytes = bytes});
    expected.push_back(RandomBytes(random, bytes));
  }
  const auto file = *posix_.CreateUncached(path_);
  auto writer = RegionWriter::Make(*file, regions, 1, block_bytes);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<size_t> done(regions.size(), 0);
  for (int i = 0; i < 40'000; ++i) {
    const size_t region = random.Below(regions.size());
    const size_t left = expected[region].size() - done[region];
    // Now and then all that is left.
    const size_t count =
        std::min<size_t>(left, i % 97 == 0 ? left : random.Below(9000));
    ASSERT_TRUE(Append(*writer, static_cast<int64_t>(region),
                       expected[region].substr(done[region], count))
                    .ok());
    done[region] += count;
  }
  EXPECT_EQ(writer->CheckFull(), absl::OkStatus());
  ASSERT_TRUE(file->Close().ok());
  const std::string contents = *io::ReadWholeFile(posix_, path_, 1 << 24);
  EXPECT_EQ(contents.size(), regions.back().end());
  for (size_t i = 0; i < regions.size(); ++i) {
    EXPECT_TRUE(
        contents.compare(regions[i].offset, regions[i].bytes, expected[i]) == 0)
        << i;
    for (uint64_t at = regions[i].offset + regions[i].bytes;
         at < regions[i].end(); ++at) {
      ASSERT_EQ(contents[at], '\0');
    }
    EXPECT_EQ(writer->crc(static_cast<int64_t>(i)),
              Crc32c({reinterpret_cast<const std::byte*>(expected[i].data()),
                      expected[i].size()}));
  }
}

TEST_F(RegionWriterTest, WhatIsNotFullIsTold) {
  const auto file = *posix_.Create(path_);
  auto writer = *RegionWriter::Make(*file, {{0, 10}, {kPageBytes, 20}});
  ASSERT_TRUE(Append(writer, 0, "0123456789").ok());
  const absl::Status status = writer.CheckFull();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("byte 4096"), absl::string_view::npos);
  EXPECT_TRUE(writer.Begin(0, 5).empty());
}

TEST_F(RegionWriterTest, FailedWritesAreReturned) {
  const auto file = *faulty_.Create(path_);
  auto writer = *RegionWriter::Make(*file, {{0, 10}});
  faulty_.Inject({.only = io::Operation::kWrite});
  EXPECT_TRUE(absl::IsUnavailable(Append(writer, 0, "0123456789")));
}

}  // namespace
}  // namespace hearth::strategy
