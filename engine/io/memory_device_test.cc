#include "engine/io/memory_device.h"

#include <cerrno>
#include <memory>
#include <string>

#include "engine/io/memory_file.h"
#include "engine/io/test_bytes.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

TEST(MemoryDeviceTest, ReadsAsADiskWould) {
  const auto device = NewMemoryDevice(TestBytes(1300), 512, "here");
  EXPECT_EQ(device->size_bytes(), 1300u);
  EXPECT_EQ(device->alignment(), 512u);
  EXPECT_TRUE(device->direct());
  EXPECT_EQ(device->path(), "here");
  EXPECT_EQ(device->descriptor(), -1);
  AlignedMemory memory = NewTestMemory(2048);
  EXPECT_EQ(device->ReadOnce(512, memory.bytes().first(512)), 512);
  EXPECT_TRUE(AreTestBytes(512, memory.bytes().first(512)));
  EXPECT_EQ(device->ReadOnce(512, memory.bytes().first(1024)), 788);
  EXPECT_TRUE(AreTestBytes(512, memory.bytes().first(788)));
  EXPECT_EQ(memory.bytes()[788], std::byte{0xee});
  EXPECT_EQ(device->ReadOnce(1536, memory.bytes().first(512)), 0);
}

TEST(MemoryDeviceTest, RefusesWhatIsNotAligned) {
  const auto device = NewMemoryDevice(TestBytes(1300), 512);
  AlignedMemory memory = NewTestMemory(2048);
  EXPECT_EQ(device->ReadOnce(1, memory.bytes().first(512)), -EINVAL);
  EXPECT_EQ(device->ReadOnce(0, memory.bytes().first(100)), -EINVAL);
  EXPECT_EQ(device->ReadOnce(0, memory.bytes().subspan(8, 512)), -EINVAL);
}

TEST(MemoryDeviceTest, FilesInMemoryAreDevicesToo) {
  const auto files = NewMemoryFileSystem(TestBytes(1300));
  const auto direct = files->OpenBlockDevice("f", {});
  const auto buffered = files->OpenBlockDevice("f", {.buffered = true});
  ASSERT_TRUE(direct.ok() && buffered.ok());
  EXPECT_TRUE((*direct)->direct());
  EXPECT_FALSE((*buffered)->direct());
  std::byte bytes[3];
  EXPECT_EQ((*buffered)->ReadOnce(777, absl::MakeSpan(bytes)), 3);
  EXPECT_TRUE(AreTestBytes(777, bytes));
}

}  // namespace
}  // namespace hearth::io
