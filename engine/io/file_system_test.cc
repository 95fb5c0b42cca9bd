#include "engine/io/file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::io {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class PosixFileSystemTest : public testing::Test {
 protected:
  void WriteFile(const std::string& path, const std::string& text) {
    auto file = files_.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(Bytes(text)).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  std::string ReadFile(const std::string& path) {
    auto file = files_.OpenForRead(path);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return "";
    std::string text((*file)->Info()->size_bytes, '\0');
    EXPECT_TRUE(
        (*file)
            ->Read(0, {reinterpret_cast<std::byte*>(text.data()), text.size()})
            .ok());
    return text;
  }

  FileSystem& files_ = FileSystem::Posix();
  ScratchDirectory scratch_;
};

TEST_F(PosixFileSystemTest, AppendsAndOverwrites) {
  const std::string path = scratch_.Path("f");
  auto file = files_.Create(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Append(Bytes("hello ")).ok());
  EXPECT_TRUE((*file)->Write(0, Bytes("J")).ok());
  EXPECT_TRUE((*file)->Append(Bytes("world")).ok());
  EXPECT_TRUE((*file)->Write(13, Bytes("!")).ok());
  EXPECT_TRUE((*file)->Append(Bytes("?")).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ(ReadFile(path), std::string("Jello world\0\0!?", 15));
}

TEST_F(PosixFileSystemTest, CreateEmptiesTheFileThereIs) {
  WriteFile(scratch_.Path("f"), "long contents");
  WriteFile(scratch_.Path("f"), "x");
  EXPECT_EQ(ReadFile(scratch_.Path("f")), "x");
}

TEST_F(PosixFileSystemTest, AClosedFileTakesNothingMore) {
  auto file = files_.Create(scratch_.Path("f"));
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append(Bytes("x"))));
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Sync()));
}

TEST_F(PosixFileSystemTest, ReservingSpaceDoesNotChangeTheSize) {
  auto file = files_.Create(scratch_.Path("f"));
  ASSERT_TRUE((*file)->Allocate(0).ok());
  ASSERT_TRUE((*file)->Allocate(1 << 20).ok());
  ASSERT_TRUE((*file)->Append(Bytes("abc")).ok());
  EXPECT_EQ(files_.Stat(scratch_.Path("f"))->size_bytes, 3u);
  struct stat status;
  ASSERT_EQ(::stat(scratch_.Path("f").c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 1 << 20);
}

TEST_F(PosixFileSystemTest, ReservingMoreThanTheDiskHasIsRefused) {
  auto file = files_.Create(scratch_.Path("f"));
  const absl::Status status = (*file)->Allocate(uint64_t{1} << 55);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("36028797018963968"));
}

TEST_F(PosixFileSystemTest, ReadingBeyondTheEndIsDataLoss) {
  WriteFile(scratch_.Path("f"), "0123");
  auto file = files_.OpenForRead(scratch_.Path("f"));
  std::vector<std::byte> out(3);
  const absl::Status status = (*file)->Read(2, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f: ends at byte 4"));
}

TEST_F(PosixFileSystemTest, AScanGivesTheSameBytesAlignedOrNot) {
  std::string text(3 * 4096 + 777, '\0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 2654435761u >> 11);
  }
  WriteFile(scratch_.Path("f"), text);
  auto file = files_.OpenForScan(scratch_.Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Info()->size_bytes, text.size());
  alignas(4096) static std::byte memory[4 * 4096];
  for (const uint64_t offset : {0, 1, 4096, 4097, 8192, 13000}) {
    for (const size_t shift : {0, 8}) {
      const auto out = absl::MakeSpan(memory).subspan(
          shift, std::min(text.size() - offset, sizeof(memory) - shift));
      const absl::Status status = (*file)->Read(offset, out);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(std::memcmp(out.data(), text.data() + offset, out.size()), 0)
          << offset << " " << shift;
    }
  }
  const absl::Status status = (*file)->Read(4096, absl::MakeSpan(memory));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ends at byte 13065"));
}

// Pages of the first MiB of `path` that are in the page cache.
int64_t ResidentPages(FileSystem& files, const std::string& path) {
  const auto mapped = files.Map(path, AccessPattern::kRandom);
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  std::vector<unsigned char> resident((1 << 20) / 4096);
  EXPECT_EQ(::mincore(const_cast<std::byte*>((*mapped)->data().data()), 1 << 20,
                      resident.data()),
            0);
  return std::count_if(resident.begin(), resident.end(),
                       [](unsigned char page) { return (page & 1) != 0; });
}

// A file of 1 MiB whose pages have left the page cache.
void WriteUncached(FileSystem& files, const std::string& path) {
  auto written = files.Create(path);
  ASSERT_TRUE((*written)->Append(Bytes(std::string(1 << 20, 'x'))).ok());
  ASSERT_TRUE((*written)->Sync().ok());  // Only clean pages can be dropped.
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

TEST_F(PosixFileSystemTest, PrefetchingBringsAWholeFileIntoThePageCache) {
  const std::string path = scratch_.Path("f");
  WriteUncached(files_, path);
  const auto mapped = *files_.Map(path, AccessPattern::kRandom);
  // The reads run in the background, and are a hint: asked again until all
  // pages are there.
  for (int wait = 0; wait < 1000 && ResidentPages(files_, path) < 256; ++wait) {
    mapped->Prefetch({});
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(ResidentPages(files_, path), 256);
}

TEST_F(PosixFileSystemTest, AScanLeavesNothingInThePageCache) {
  const std::string path = scratch_.Path("f");
  WriteUncached(files_, path);
  const auto file = files_.OpenForScan(path);
  std::vector<std::byte> memory((64 << 10) + 4096);
  for (const size_t misalignment : {0, 8}) {
    const auto page =
        (reinterpret_cast<uintptr_t>(memory.data()) + 4095) & ~uintptr_t{4095};
    const absl::Span<std::byte> block(
        reinterpret_cast<std::byte*>(page) + misalignment,
        (64 << 10) - misalignment);
    // Dropping is a hint, which a busy kernel may pass over at times.
    int64_t resident = 256;
    for (int scan = 0; scan < 50 && resident >= 16; ++scan) {
      for (uint64_t at = 0; at + block.size() <= 1 << 20; at += block.size()) {
        ASSERT_TRUE((*file)->Read(at, block).ok());
      }
      resident = ResidentPages(files_, path);
    }
    EXPECT_LT(resident, 16) << misalignment;
  }
}

/// Memory for `bytes`, `shift` behind a multiple of 4 KiB, in `memory`.
absl::Span<std::byte> Place(std::vector<std::byte>& memory, size_t bytes,
                            size_t shift) {
  memory.resize(bytes + shift + 4096);
  const auto page =
      (reinterpret_cast<uintptr_t>(memory.data()) + 4095) & ~uintptr_t{4095};
  return {reinterpret_cast<std::byte*>(page) + shift, bytes};
}

TEST_F(PosixFileSystemTest, WhatIsWrittenUncachedIsTheSameAlignedOrNot) {
  std::string text(5 * 4096 + 777, '\0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 2654435761u >> 11);
  }
  for (const size_t shift : {0, 8}) {
    for (const size_t piece : {1000, 4096, 8192, 10000, 30000}) {
      const std::string path = scratch_.Path("f");
      WriteFile(path, "what was there before");
      auto file = files_.CreateUncached(path);
      ASSERT_TRUE(file.ok()) << file.status();
      ASSERT_TRUE((*file)->Allocate(text.size()).ok());
      std::vector<std::byte> memory;
      for (size_t at = 0; at < text.size(); at += piece) {
        const size_t size = std::min(piece, text.size() - at);
        const auto data = Place(memory, size, shift);
        std::memcpy(data.data(), text.data() + at, size);
        const absl::Status status = (*file)->Append(data);
        ASSERT_TRUE(status.ok()) << status;
      }
      ASSERT_TRUE((*file)->Sync().ok());
      ASSERT_TRUE((*file)->Close().ok());
      EXPECT_TRUE(ReadFile(path) == text) << shift << " " << piece;
    }
  }
}

TEST_F(PosixFileSystemTest, UncachedFilesAreOverwrittenAndClosedAsOthers) {
  auto file = files_.CreateUncached(scratch_.Path("f"));
  std::vector<std::byte> memory;
  const auto page = Place(memory, 4096, 0);
  std::fill(page.begin(), page.end(), std::byte{'x'});
  ASSERT_TRUE((*file)->Append(page).ok());
  ASSERT_TRUE((*file)->Write(1, Bytes("yz")).ok());
  ASSERT_TRUE((*file)->Append(Bytes("!")).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(ReadFile(scratch_.Path("f")), "xyz" + std::string(4093, 'x') + "!");
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append(page)));
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Sync()));
  EXPECT_TRUE(
      absl::IsNotFound(files_.CreateUncached(scratch_.Path("no/f")).status()));
}

TEST_F(PosixFileSystemTest, AnAppendedFileKeepsWhatItHolds) {
  const std::string path = scratch_.Path("f");
  for (const char* text : {"one", "", " two"}) {
    auto file = files_.OpenForAppend(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(Bytes(text)).ok());
    ASSERT_TRUE((*file)->Append(Bytes(".")).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  EXPECT_EQ(ReadFile(path), "one.. two.");
  EXPECT_TRUE(
      absl::IsNotFound(files_.OpenForAppend(scratch_.Path("no/f")).status()));
}

TEST_F(PosixFileSystemTest, UncachedWritesLeaveNothingInThePageCache) {
  for (const size_t shift : {0, 8}) {
    const std::string path = scratch_.Path("f");
    // Dropping is a hint, which a busy kernel may pass over at times.
    int64_t resident = 256;
    for (int attempt = 0; attempt < 50 && resident >= 16; ++attempt) {
      auto file = files_.CreateUncached(path);
      std::vector<std::byte> memory;
      const auto block = Place(memory, 64 << 10, shift);
      for (int i = 0; i < 32; ++i) ASSERT_TRUE((*file)->Append(block).ok());
      // The second MiB may still be there.
      resident = ResidentPages(files_, path);
      ASSERT_TRUE((*file)->Sync().ok());
    }
    EXPECT_LT(resident, 16) << shift;
  }
}

TEST_F(PosixFileSystemTest, OnlyRegularFilesAreScanned) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(files_.OpenForScan(scratch_.path()).status()));
  EXPECT_TRUE(
      absl::IsNotFound(files_.OpenForScan(scratch_.Path("none")).status()));
}

TEST_F(PosixFileSystemTest, InfoTellsSizeAndTime) {
  const absl::Time before = absl::Now() - absl::Seconds(2);
  WriteFile(scratch_.Path("f"), "0123");
  auto file = files_.OpenForRead(scratch_.Path("f"));
  const FileInfo info = *(*file)->Info();
  EXPECT_EQ(info.size_bytes, 4u);
  EXPECT_TRUE(info.is_regular);
  EXPECT_FALSE(info.is_directory);
  EXPECT_GE(info.modified, before);
  EXPECT_EQ((*file)->path(), scratch_.Path("f"));
}

TEST_F(PosixFileSystemTest, OnlyRegularFilesAreOpened) {
  const std::string fifo = scratch_.Path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path :
       {scratch_.path(), fifo, std::string("/dev/null")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(files_.OpenForRead(path).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(
        files_.Map(path, AccessPattern::kRandom).status()));
  }
}

TEST_F(PosixFileSystemTest, WhatIsMissingIsNotFound) {
  const std::string path = scratch_.Path("none");
  EXPECT_TRUE(absl::IsNotFound(files_.OpenForRead(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Stat(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.List(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.RealPath(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.SyncDirectory(path)));
  EXPECT_TRUE(absl::IsNotFound(files_.FreeBytes(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Rename(path, scratch_.Path("b"))));
  EXPECT_TRUE(absl::IsNotFound(files_.Create(path + "/f").status()));
}

TEST_F(PosixFileSystemTest, MapsWhatTheFileHolds) {
  WriteFile(scratch_.Path("f"), "mapped");
  for (const AccessPattern pattern :
       {AccessPattern::kNormal, AccessPattern::kRandom,
        AccessPattern::kSequential}) {
    auto mapped = files_.Map(scratch_.Path("f"), pattern);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    const auto data = (*mapped)->data();
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(data.data()), data.size()),
        "mapped");
  }
}

TEST_F(PosixFileSystemTest, MapsEmptyFiles) {
  WriteFile(scratch_.Path("f"), "");
  auto mapped = files_.Map(scratch_.Path("f"), AccessPattern::kRandom);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_TRUE((*mapped)->data().empty());
}

TEST_F(PosixFileSystemTest, AMappingOutlivesItsName) {
  WriteFile(scratch_.Path("f"), "mapped");
  auto mapped = files_.Map(scratch_.Path("f"), AccessPattern::kRandom);
  ASSERT_TRUE(files_.RemoveTree(scratch_.Path("f")).ok());
  EXPECT_EQ((*mapped)->data()[0], std::byte{'m'});
}

TEST_F(PosixFileSystemTest, PagesThatCannotBeReadAreZerosAndAnError) {
  const std::string path = scratch_.Path("f");
  WriteFile(path, std::string(3 * 4096, 'm'));
  auto mapped = *files_.Map(path, AccessPattern::kRandom);
  auto other = *files_.Map(path, AccessPattern::kRandom);
  EXPECT_EQ(mapped->data()[0], std::byte{'m'});
  std::filesystem::resize_file(path, 4096);
  EXPECT_TRUE(mapped->status().ok()) << "nothing was missed yet";

  EXPECT_EQ(mapped->data()[3 * 4096 - 1], std::byte{0});
  EXPECT_EQ(mapped->data()[4096], std::byte{0});
  EXPECT_EQ(mapped->data()[4095], std::byte{'m'});

  const absl::Status status = mapped->status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr(path),
                               ::testing::HasSubstr("4096 of 12288 bytes"),
                               ::testing::HasSubstr("byte 8192")));
  EXPECT_TRUE(other->status().ok()) << "of another mapping";
}

TEST_F(PosixFileSystemTest, FaultsOnSeveralThreadsAreAllSurvived) {
  const std::string path = scratch_.Path("f");
  constexpr size_t kPages = 256;
  WriteFile(path, std::string(kPages * 4096, 'm'));
  const auto mapped = *files_.Map(path, AccessPattern::kRandom);
  std::filesystem::resize_file(path, 0);
  std::atomic<size_t> zeros = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (size_t page = 0; page < kPages; ++page) {
        zeros += mapped->data()[page * 4096 + 7] == std::byte{0} ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(zeros, 4 * kPages);
  EXPECT_TRUE(absl::IsDataLoss(mapped->status()));
}

TEST_F(PosixFileSystemTest, FaultsOutsideOfMappingsStillEndTheProcess) {
  const std::string path = scratch_.Path("f");
  WriteFile(path, std::string(4096, 'm'));
  EXPECT_DEATH(
      {
        // Installs the handler.
        const auto mapped = files_.Map(path, AccessPattern::kRandom);
        const int fd = ::open(path.c_str(), O_RDONLY);
        const auto* foreign = static_cast<const volatile char*>(
            ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
        std::filesystem::resize_file(path, 0);
        std::exit(foreign[0]);
      },
      "");
}

TEST_F(PosixFileSystemTest, ListsNamesInOrder) {
  WriteFile(scratch_.Path("b"), "");
  WriteFile(scratch_.Path(".a"), "");
  ASSERT_TRUE(files_.CreateDirectory(scratch_.Path("c")).ok());
  EXPECT_THAT(*files_.List(scratch_.path()), ElementsAre(".a", "b", "c"));
  EXPECT_THAT(*files_.List(scratch_.Path("c")), IsEmpty());
}

TEST_F(PosixFileSystemTest, CreatesADirectoryOnce) {
  EXPECT_TRUE(files_.CreateDirectory(scratch_.Path("d")).ok());
  EXPECT_TRUE(files_.CreateDirectory(scratch_.Path("d")).ok());
  EXPECT_TRUE(files_.Stat(scratch_.Path("d"))->is_directory);
  EXPECT_EQ(files_.Stat(scratch_.Path("d"))->file_system,
            files_.Stat(scratch_.Path(""))->file_system);
  EXPECT_NE(files_.Stat(scratch_.Path("d"))->file_system,
            files_.Stat("/proc")->file_system);
  WriteFile(scratch_.Path("f"), "");
  EXPECT_TRUE(
      absl::IsAlreadyExists(files_.CreateDirectory(scratch_.Path("f"))));
}

TEST_F(PosixFileSystemTest, RenameReplaces) {
  WriteFile(scratch_.Path("a"), "new");
  WriteFile(scratch_.Path("b"), "old");
  EXPECT_TRUE(files_.Rename(scratch_.Path("a"), scratch_.Path("b")).ok());
  EXPECT_EQ(ReadFile(scratch_.Path("b")), "new");
  EXPECT_THAT(*files_.List(scratch_.path()), ElementsAre("b"));
  EXPECT_TRUE(files_.SyncDirectory(scratch_.path()).ok());
}

TEST_F(PosixFileSystemTest, RemovesTreesButNotWhatLinksPointTo) {
  WriteFile(scratch_.Path("kept"), "kept");
  ASSERT_TRUE(files_.CreateDirectory(scratch_.Path("d")).ok());
  ASSERT_TRUE(files_.CreateDirectory(scratch_.Path("d/e")).ok());
  WriteFile(scratch_.Path("d/e/f"), "");
  ASSERT_EQ(
      ::symlink(scratch_.Path("kept").c_str(), scratch_.Path("d/link").c_str()),
      0);
  EXPECT_TRUE(files_.RemoveTree(scratch_.Path("d")).ok());
  EXPECT_TRUE(files_.RemoveTree(scratch_.Path("d")).ok());
  EXPECT_THAT(*files_.List(scratch_.path()), ElementsAre("kept"));
}

TEST_F(PosixFileSystemTest, ResolvesLinks) {
  WriteFile(scratch_.Path("f"), "");
  ASSERT_EQ(::symlink("f", scratch_.Path("link").c_str()), 0);
  EXPECT_EQ(*files_.RealPath(scratch_.Path("link")),
            *files_.RealPath(scratch_.Path("f")));
}

TEST_F(PosixFileSystemTest, KnowsFreeSpace) {
  EXPECT_GT(*files_.FreeBytes(scratch_.path()), 0u);
}

TEST(JoinPathTest, PutsASlashBetween) { EXPECT_EQ(JoinPath("a", "b"), "a/b"); }

class PosixBlockDeviceTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<BlockDevice>> Open(
      const std::string& path, const BlockDeviceOptions& options = {}) {
    return FileSystem::Posix().OpenBlockDevice(path, options);
  }

  ScratchDirectory scratch_;
};

TEST_F(PosixBlockDeviceTest, ReadsPastThePageCacheWhereItCan) {
  const std::string path = scratch_.Path("f");
  WriteTestBytes(path, 10'000);
  auto device = Open(path);
  ASSERT_TRUE(device.ok()) << device.status();
  if (!(*device)->direct()) {
    GTEST_SKIP() << "no direct reads in " << scratch_.path();
  }
  const uint32_t alignment = (*device)->alignment();
  EXPECT_TRUE(std::has_single_bit(alignment));
  EXPECT_GE(alignment, 512u);
  EXPECT_EQ((*device)->size_bytes(), 10'000u);
  EXPECT_EQ((*device)->path(), path);
  EXPECT_GE((*device)->descriptor(), 0);
  AlignedMemory memory = NewTestMemory(3 * 4096);
  EXPECT_EQ((*device)->ReadOnce(0, memory.bytes()), 10'000);
  EXPECT_TRUE(AreTestBytes(0, memory.bytes().first(10'000)));
  // The page cache, which takes any alignment, is not what answers.
  EXPECT_EQ((*device)->ReadOnce(1, memory.bytes()), -EINVAL);
}

TEST_F(PosixBlockDeviceTest, ReadsAnythingThroughThePageCache) {
  const std::string path = scratch_.Path("f");
  WriteTestBytes(path, 10'000);
  auto device = Open(path, {.buffered = true});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE((*device)->direct());
  EXPECT_EQ((*device)->alignment(), 1u);
  std::byte bytes[5];
  EXPECT_EQ((*device)->ReadOnce(9'001, absl::MakeSpan(bytes)), 5);
  EXPECT_TRUE(AreTestBytes(9'001, bytes));
  EXPECT_EQ((*device)->ReadOnce(9'998, absl::MakeSpan(bytes)), 2);
  EXPECT_EQ((*device)->ReadOnce(10'000, absl::MakeSpan(bytes)), 0);
}

TEST_F(PosixBlockDeviceTest, FilesInMemoryAreBuffered) {
  const std::string path =
      "/dev/shm/hearth_block_device_test." + std::to_string(::getpid());
  struct stat status;
  if (::stat("/dev/shm", &status) != 0 || ::access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  }
  WriteTestBytes(path, 1000);
  auto device = Open(path);
  ::unlink(path.c_str());
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE((*device)->direct());
  EXPECT_EQ((*device)->alignment(), 1u);
  std::byte bytes[8];
  EXPECT_EQ((*device)->ReadOnce(333, absl::MakeSpan(bytes)), 8);
  EXPECT_TRUE(AreTestBytes(333, bytes));
}

TEST_F(PosixBlockDeviceTest, OpensAnEmptyFile) {
  WriteTestBytes(scratch_.Path("f"), 0);
  auto device = Open(scratch_.Path("f"));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->size_bytes(), 0u);
}

TEST_F(PosixBlockDeviceTest, OpensRegularFilesOnly) {
  ASSERT_EQ(::mkfifo(scratch_.Path("fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {scratch_.path(), scratch_.Path("fifo"), std::string("/dev/null")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Open(path).status()));
  }
  EXPECT_TRUE(absl::IsNotFound(Open(scratch_.Path("none")).status()));
}

}  // namespace

}  // namespace hearth::io
