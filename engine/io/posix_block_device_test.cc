#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <string>

#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/io/test_bytes.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

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
  // It is not the page cache that answers: that one takes any alignment.
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
