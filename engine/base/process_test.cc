#include "engine/base/process.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hearth {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ProcessTest, TheMachineHasMemoryAvailable) {
  EXPECT_GT(AvailableMemoryBytes(), uint64_t{1} << 20);
}

TEST(ProcessTest, ReadBytesNeverShrink) {
  const uint64_t before = ProcessReadBytes();
  EXPECT_GE(ProcessReadBytes(), before);
}

TEST(ProcessTest, ThereIsAsMuchAsIsAvailableOrMore) {
  EXPECT_GE(MemoryCapacityBytes(), AvailableMemoryBytes() / 2);
}

TEST(ProcessTest, ThereAreProcessorsAndNoMoreThanTheMachineHas) {
  EXPECT_GE(UsableProcessors(), 1);
  EXPECT_LE(UsableProcessors(),
            static_cast<int>(std::thread::hardware_concurrency()));
}

class CgroupMemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = mount_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::string mount_ = ::testing::TempDir() + "/cgroup";
};

using CgroupProcessorLimitTest = CgroupMemoryLimitTest;

TEST_F(CgroupProcessorLimitTest, OfVersion2IsTheLowestOnTheWayUp) {
  Write("/a/cpu.max", "250000 100000\n");
  Write("/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupProcessorLimit("0::/a/b\n", mount_), 2.5);
  EXPECT_EQ(CgroupProcessorLimit("0::/c\n", mount_), kInfinity);
}

TEST_F(CgroupProcessorLimitTest, OfVersion1) {
  Write("/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/cpu/cpu.cfs_period_us", "100000\n");
  Write("/cpu/job/cpu.cfs_quota_us", "400000\n");
  Write("/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupProcessorLimit("5:cpu,cpuacct:/job\n4:memory:/x\n", mount_),
            4);
  EXPECT_EQ(CgroupProcessorLimit("5:cpu,cpuacct:/\n", mount_), kInfinity);
  EXPECT_EQ(CgroupProcessorLimit("nonsense", mount_), kInfinity);
}

TEST_F(CgroupMemoryLimitTest, OfVersion2IsTheLowestOnTheWayUp) {
  Write("/a/memory.max", "1000\n");
  Write("/a/b/memory.max", "max\n");
  EXPECT_EQ(CgroupMemoryLimit("0::/a/b\n", mount_), 1000);
  EXPECT_EQ(CgroupMemoryLimit("0::/c\n", mount_), UINT64_MAX);
  EXPECT_EQ(CgroupMemoryLimit("0::/\n", mount_), UINT64_MAX);
}

TEST_F(CgroupMemoryLimitTest, OfVersion1) {
  Write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/memory/job/memory.limit_in_bytes", "2952790016\n");
  const std::string text = "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n";
  EXPECT_EQ(CgroupMemoryLimit(text, mount_), 2952790016);
  EXPECT_EQ(CgroupMemoryLimit("4:memory:/\n", mount_), 9223372036854771712u);
}

TEST_F(CgroupMemoryLimitTest, OfAnythingElseIsNone) {
  for (const char* text : {"", "nonsense", "4:cpu:/job\n", "::"}) {
    EXPECT_EQ(CgroupMemoryLimit(text, mount_), UINT64_MAX) << text;
  }
}

TEST(ProcessMemoryTest, SumsAnonymousAndSharedPagesButNotFilePages) {
  const ProcessMemory memory = ParseProcessStatus(
      "Name:\thearthd\nVmRSS:\t  900 kB\nRssAnon:\t    100 kB\n"
      "RssFile:\t  780 kB\nRssShmem:\t      20 kB\nThreads:\t1\n");
  EXPECT_EQ(memory.anonymous_bytes, 100 * 1024u);
  EXPECT_EQ(memory.shared_bytes, 20 * 1024u);
  EXPECT_EQ(memory.total_bytes(), 120 * 1024u);
}

TEST(ProcessMemoryTest, MalformedLinesCountNothing) {
  EXPECT_EQ(ParseProcessStatus("").total_bytes(), 0u);
  EXPECT_EQ(
      ParseProcessStatus("RssAnon:\tmany kB\nRssShmem: 4 MB\n").total_bytes(),
      0u);
}

TEST(ProcessMemoryTest, ThisProcessGrowsWithWhatItTouches) {
  const uint64_t before = ReadProcessMemory().total_bytes();
  ASSERT_GT(before, 0u);
  std::vector<char> block(64 << 20);
  std::fill(block.begin(), block.end(), 1);
  EXPECT_GT(ReadProcessMemory().total_bytes(), before + (48 << 20));
  EXPECT_EQ(block.back(), 1);
}

TEST(ProcessMemoryTest, FreePagesGoBackToTheSystem) {
  std::vector<std::unique_ptr<char[]>> pieces(4096);
  for (auto& piece : pieces) {
    piece.reset(new char[16 << 10]);
    std::fill_n(piece.get(), 16 << 10, 1);
  }
  if (mallinfo2().uordblks < 64 << 20) {
    GTEST_SKIP() << "sanitizers bring another allocator than glibc's";
  }
  // Allocated last, above the freed memory: the heap would shrink by itself
  // otherwise.
  const auto last = std::move(pieces.back());
  pieces.clear();
  const uint64_t before = ReadProcessMemory().total_bytes();
  ReleaseFreePages();
  EXPECT_LT(ReadProcessMemory().total_bytes(), before - (48 << 20));
  EXPECT_EQ(last[0], 1);
}

TEST(ProcessMemoryTest, SoDoThoseAtTheEndOfWhatAThreadHasFreed) {
  ShareOneHeap();
  // From this the allocator learns to keep as much at the end of a heap.
  std::vector<char>(size_t{30} << 20, 1).clear();
  std::thread([] {
    std::vector<std::unique_ptr<char[]>> pieces(2048);
    for (auto& piece : pieces) {
      piece.reset(new char[16 << 10]);
      std::fill_n(piece.get(), 16 << 10, 1);
    }
  }).join();
  const uint64_t before = ReadProcessMemory().total_bytes();
  if (mallinfo2().fordblks < 24 << 20) {
    GTEST_SKIP() << "sanitizers bring another allocator than glibc's";
  }
  ReleaseFreePages();
  EXPECT_LT(ReadProcessMemory().total_bytes(), before - (24 << 20));
}

// The thread, and threads that it starts, but no others.
TEST(RaiseNiceTest, ThreadsThatAreStartedLaterAreNicer) {
  const auto nice = [] {
    return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  };
  const int before = nice();
  if (before > 9) GTEST_SKIP() << "the test itself runs at nice " << before;
  int raised = 0;
  int inherited = 0;
  std::thread([&] {
    RaiseNice(10);
    raised = nice();
    std::thread([&] { inherited = nice(); }).join();
  }).join();
  EXPECT_EQ(raised, before + 10);
  EXPECT_EQ(inherited, before + 10);
  EXPECT_EQ(nice(), before);
}

}  // namespace

}  // namespace hearth
