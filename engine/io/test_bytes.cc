#include "engine/io/test_bytes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/io/file_system.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

std::byte TestByte(uint64_t offset) {
  const uint64_t mixed = (offset / 8 + 1) * 0x9e3779b97f4a7c15;
  return static_cast<std::byte>(mixed >> (8 * (offset % 8)));
}

}  // namespace

std::string TestBytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(TestByte(i));
  return bytes;
}

bool AreTestBytes(uint64_t offset, absl::Span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != TestByte(offset + i)) return false;
  }
  return true;
}

void WriteTestBytes(const std::string& path, size_t size) {
  const std::string bytes = TestBytes(size);
  auto file = FileSystem::Posix().Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)
                  ->Append({reinterpret_cast<const std::byte*>(bytes.data()),
                            bytes.size()})
                  .ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
}

AlignedMemory NewTestMemory(size_t size) {
  auto memory = AlignedMemory::Allocate(size);
  EXPECT_TRUE(memory.ok()) << memory.status();
  std::fill(memory->bytes().begin(), memory->bytes().end(), std::byte{0xee});
  return *std::move(memory);
}

}  // namespace hearth::io
