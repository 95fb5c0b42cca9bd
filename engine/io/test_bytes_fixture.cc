#include "engine/io/test_bytes_fixture.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/io/file_system.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

/// The 8 bytes from 8 * `index` on.
uint64_t TestWord(uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15; }

}  // namespace

std::string TestBytes(size_t size) {
  std::vector<uint64_t> words(size / 8 + 1);
  for (size_t i = 0; i < words.size(); ++i) words[i] = TestWord(i);
  return std::string(reinterpret_cast<const char*>(words.data()), size);
}

bool AreTestBytes(uint64_t offset, absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const uint64_t word = TestWord(offset / 8);
    const size_t skipped = offset % 8;
    const size_t count = std::min<size_t>(8 - skipped, bytes.size());
    if (std::memcmp(bytes.data(),
                    reinterpret_cast<const char*>(&word) + skipped,
                    count) != 0) {
      return false;
    }
    offset += count;
    bytes.remove_prefix(count);
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
