#include "engine/machine/disk_profile.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gtest/gtest.h"

namespace hearth::machine {
namespace {

// The machine's clock, with a wall time that the test moves.
class ShiftedClock final : public Clock {
 public:
  absl::Time Now() const override { return Clock::Real().Now() + shift; }
  double SteadySeconds() const override {
    return Clock::Real().SteadySeconds();
  }

  absl::Duration shift = absl::ZeroDuration();
};

class DiskProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = *files_.Create(disk_.file);
    const std::vector<std::byte> data(size_t{4} << 20, std::byte{1});
    ASSERT_EQ(file->Append(data), absl::OkStatus());
    ASSERT_EQ(file->Close(), absl::OkStatus());
    ASSERT_EQ(files_.CreateDirectory(disk_.folder), absl::OkStatus());
  }

  absl::StatusOr<DiskProfile> Find(bool may_measure) {
    return profiles_.Find(disk_, [may_measure] { return may_measure; }, {});
  }

  std::string KeptPath() {
    return profiles_.PathOf(files_.Stat(disk_.file)->file_system);
  }

  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  const std::unique_ptr<io::ReadQueues> queues_ = *io::ReadQueues::Create();
  ShiftedClock clock_;
  const MeasuredDisk disk_ = {.file = scratch_.Path("file"),
                              .folder = scratch_.Path("plans")};
  DiskProfiles profiles_{files_, *queues_, clock_, scratch_.Path("devices")};
};

TEST_F(DiskProfileTest, MeasuresEverythingAndLeavesNothing) {
  const auto profile = MeasureProfile(
      {.files = files_, .read_queues = *queues_, .clock = clock_, .stop = {}},
      disk_);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_FALSE(profile->pages.empty());
  EXPECT_EQ(profile->pages.front().threads, 1);
  EXPECT_EQ(profile->pages.front().depth, 1);
  for (const RandomReads& reads : profile->pages) {
    EXPECT_GT(reads.per_second, 0);
  }
  EXPECT_EQ(profile->streams.size(), 3u);
  for (const double rate : profile->streams) EXPECT_GT(rate, 0);
  EXPECT_GT(profile->write_bytes_per_second, 0);
  EXPECT_GT(profile->reads_of_16k, 0);
  EXPECT_GT(profile->reads_of_128k, 0);
  EXPECT_GT(profile->seconds_per_read, 0);
  EXPECT_GT(profile->CopySeconds(512), 0);
  EXPECT_GT(profile->checksum_seconds_per_byte, 0);
  EXPECT_GT(profile->memory_seconds_per_byte, 0);
  EXPECT_FALSE(profile->is_assumed);
  EXPECT_TRUE(files_.List(disk_.folder)->empty());
}

TEST_F(DiskProfileTest, IsKeptForADay) {
  const auto first = Find(/*may_measure=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*ParseProfile(*io::ReadWholeFile(files_, KeptPath(), 1 << 20)),
            *Find(/*may_measure=*/true));
  clock_.shift = absl::Hours(23);
  EXPECT_EQ(Find(true)->measured, Find(false)->measured);
  clock_.shift = absl::Hours(25);
  const absl::Time old = Find(false)->measured;
  EXPECT_GT(Find(true)->measured, old + absl::Hours(24));
}

TEST_F(DiskProfileTest, ScansCorrectTheStreamsOfAKeptProfile) {
  profiles_.NoteScan(disk_.file, 1e9);
  EXPECT_TRUE(absl::IsNotFound(files_.Stat(KeptPath()).status()));
  ASSERT_TRUE(Find(true).ok());
  const DiskProfile before = *Find(false);
  profiles_.NoteScan(disk_.file, before.streams[0] / 4);
  const DiskProfile after = *Find(false);
  EXPECT_NEAR(after.streams[0], before.streams[0] / 2, 1);
  EXPECT_NEAR(after.streams[2], before.streams[2] / 2, 1);
  EXPECT_EQ(after.pages, before.pages);
  EXPECT_EQ(after.measured, before.measured);
  // A profile that cannot be kept stays as it is.
  files_.Inject({.for_good = true, .only = io::Operation::kWrite});
  profiles_.NoteScan(disk_.file, 1e9);
  files_.Clear();
  EXPECT_EQ(*Find(false), after);
  profiles_.NoteScan(scratch_.Path("absent"), 1e9);
}

TEST_F(DiskProfileTest, NothingIsMeasuredWhileOthersRead) {
  const auto profile = Find(/*may_measure=*/false);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->is_assumed);
  EXPECT_TRUE(absl::IsNotFound(files_.Stat(KeptPath()).status()));
}

TEST_F(DiskProfileTest, ADamagedProfileIsMeasuredAgain) {
  ASSERT_TRUE(Find(true).ok());
  std::string text = *io::ReadWholeFile(files_, KeptPath(), 1 << 20);
  for (const size_t at : {size_t{20}, text.size() / 2, text.size() - 3}) {
    std::string damaged = text;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    EXPECT_FALSE(ParseProfile(damaged).ok()) << at;
    ASSERT_EQ(io::WriteFileAtomically(files_, KeptPath(), damaged),
              absl::OkStatus());
    EXPECT_TRUE(Find(false)->is_assumed);
    EXPECT_FALSE(Find(true)->is_assumed);
    EXPECT_FALSE(Find(false)->is_assumed);
  }
}

TEST_F(DiskProfileTest, AFullDiskIsAnError) {
  files_.LimitSpace(1 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(Find(true).status()));
  EXPECT_TRUE(files_.List(disk_.folder)->empty());
}

TEST(DiskProfileRatesTest, MoreThreadsAndReadsAreNoSlower) {
  const DiskProfile profile = {
      .pages = {{1, 1, 1e4}, {1, 64, 1e5}, {2, 1, 1.8e4}, {2, 64, 9e4}},
      .reads_of_16k = 5e4,
      .reads_of_128k = 1e4,
      .streams = {1e9, 2e9, 1.5e9}};
  EXPECT_EQ(profile.ReadsPerSecond(1, 1, 512), 1e4);
  EXPECT_EQ(profile.ReadsPerSecond(1, 32, 4096), 1e4);
  EXPECT_EQ(profile.ReadsPerSecond(1, 64, 4096), 1e5);
  EXPECT_EQ(profile.ReadsPerSecond(8, 1000, 4096), 1e5);
  EXPECT_NEAR(profile.ReadsPerSecond(1, 64, 16384), 5e4, 1);
  EXPECT_NEAR(profile.ReadsPerSecond(1, 64, 8192), 7.07e4, 1e3);
  EXPECT_NEAR(profile.ReadsPerSecond(1, 64, 131072), 1e4, 1);
  EXPECT_NEAR(profile.ReadsPerSecond(1, 64, 1310720), 1e3, 1);
  EXPECT_EQ(profile.BytesPerSecond(1), 1e9);
  EXPECT_EQ(profile.BytesPerSecond(4), 2e9);
}

}  // namespace
}  // namespace hearth::machine
