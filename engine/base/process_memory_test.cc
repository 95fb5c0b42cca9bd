#include "engine/base/process_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace hearth {
namespace {

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
  // Above what is freed, where the heap would shrink by itself.
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

}  // namespace
}  // namespace hearth
