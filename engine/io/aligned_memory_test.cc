#include "engine/io/aligned_memory.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace hearth::io {
namespace {

constexpr uint64_t kHugePage = 2 << 20;

class AlignedMemorySizeTest : public testing::TestWithParam<uint64_t> {};

TEST_P(AlignedMemorySizeTest, IsZeroedAlignedAndWritableToItsEnds) {
  auto memory = AlignedMemory::Allocate(GetParam());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Span<std::byte> bytes = memory->bytes();
  ASSERT_EQ(bytes.size(), GetParam());
  const uint64_t alignment = GetParam() >= kHugePage ? kHugePage : 4096;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % alignment, 0u);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  std::fill(bytes.begin(), bytes.end(), std::byte{0xAB});
  EXPECT_EQ(std::as_const(*memory).bytes().back(), std::byte{0xAB});
}

INSTANTIATE_TEST_SUITE_P(Sizes, AlignedMemorySizeTest,
                         testing::Values(1, 63, 4096, 4097, kHugePage - 1,
                                         kHugePage, kHugePage + 1,
                                         3 * kHugePage));

TEST(AlignedMemoryTest, NothingIsFine) {
  auto memory = AlignedMemory::Allocate(0);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(memory->bytes().empty());
}

TEST(AlignedMemoryTest, MovesWithoutCopying) {
  AlignedMemory first = *AlignedMemory::Allocate(100);
  const std::byte* data = first.bytes().data();
  AlignedMemory second = std::move(first);
  EXPECT_EQ(second.bytes().data(), data);
  AlignedMemory third = *AlignedMemory::Allocate(kHugePage);
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(third.bytes().size(), 100u);
}

TEST(AlignedMemoryTest, MoreThanThereIsIsRefusedWithTheSize) {
  for (const uint64_t size :
       {uint64_t{1} << 55, uint64_t{1} << 62, UINT64_MAX}) {
    const auto memory = AlignedMemory::Allocate(size);
    EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << size;
    EXPECT_NE(std::string(memory.status().message()).find(std::to_string(size)),
              std::string::npos);
  }
}

}  // namespace
}  // namespace hearth::io
