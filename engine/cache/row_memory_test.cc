#include "engine/cache/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hearth::cache {

namespace {

bool IsAligned(const AlignedBuffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0;
}

TEST(AlignedBufferTest, IsEmptyAtFirst) {
  const AlignedBuffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.capacity(), 0u);
}

TEST(AlignedBufferTest, EverySizeIsAlignedAndWritable) {
  AlignedBuffer buffer;
  for (const uint64_t size : {1, 63, 64, 4096, 4097, 3 << 20}) {
    ASSERT_TRUE(buffer.Resize(size).ok());
    EXPECT_EQ(buffer.size(), size);
    EXPECT_GE(buffer.capacity(), size);
    ASSERT_TRUE(IsAligned(buffer));
    std::memset(buffer.data(), 0xAB, size);
  }
}

TEST(AlignedBufferTest, KeepsItsMemoryWhenLessOrALittleMoreIsAsked) {
  AlignedBuffer buffer;
  ASSERT_TRUE(buffer.Resize(1 << 20).ok());
  const std::byte* const data = buffer.data();
  for (const uint64_t size : {1 << 20, 100, 0, (1 << 20) + (1 << 16)}) {
    ASSERT_TRUE(buffer.Resize(size).ok());
    EXPECT_EQ(buffer.data(), data) << size;
    EXPECT_EQ(buffer.size(), size);
  }
}

// Bytes of the pages that the buffer has in memory.
uint64_t ResidentBytes(AlignedBuffer& buffer) {
  constexpr uint64_t kPage = 4096;
  std::vector<unsigned char> pages((buffer.capacity() + kPage - 1) / kPage);
  EXPECT_EQ(::mincore(buffer.data(), buffer.capacity(), pages.data()), 0);
  return kPage * static_cast<uint64_t>(std::count_if(
                     pages.begin(), pages.end(),
                     [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(AlignedBufferTest, TakesNoMoreMemoryThanIsTold) {
  for (const uint64_t largest :
       {uint64_t{1}, uint64_t{5000}, uint64_t{1} << 20, uint64_t{2'000'000},
        uint64_t{3} << 20, uint64_t{33'000'000}}) {
    AlignedBuffer buffer;
    for (const uint64_t size : {largest - largest / 10, largest}) {
      ASSERT_TRUE(buffer.Resize(size).ok());
      std::memset(buffer.data(), 0xAB, size);
    }
    EXPECT_LE(ResidentBytes(buffer), AlignedBuffer::MemoryBytes(largest))
        << largest;
  }
}

TEST(AlignedBufferTest, SmallBuffersAreNotCountedAsHugePages) {
  EXPECT_EQ(AlignedBuffer::MemoryBytes(0), 0u);
  EXPECT_EQ(AlignedBuffer::MemoryBytes(5000), 8192u);
  EXPECT_EQ(AlignedBuffer::MemoryBytes(3 << 20), uint64_t{4} << 20);
}

TEST(AlignedBufferTest, MovesTakeTheMemoryAlong) {
  AlignedBuffer buffer;
  ASSERT_TRUE(buffer.Resize(100).ok());
  buffer.data()[99] = std::byte{7};
  AlignedBuffer other = std::move(buffer);
  EXPECT_EQ(other.size(), 100u);
  EXPECT_EQ(other.data()[99], std::byte{7});
}

TEST(AlignedBufferTest, IsEmptyAndUsableAfterARefusal) {
  AlignedBuffer buffer;
  ASSERT_TRUE(buffer.Resize(100).ok());
  const absl::Status refused = buffer.Resize(uint64_t{1} << 55);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.capacity(), 0u);
  EXPECT_TRUE(buffer.Resize(100).ok());
  EXPECT_TRUE(IsAligned(buffer));
}

TEST(AlignedBufferTest, RefusesSizesThatOverflow) {
  AlignedBuffer buffer;
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX / 9 * 8 + 64}) {
    EXPECT_TRUE(absl::IsResourceExhausted(buffer.Resize(size))) << size;
  }
}

TEST(SlotArenaTest, SlotsStandOneAfterTheOther) {
  auto arena = SlotArena::Make(5, 12);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->num_slots(), 5);
  EXPECT_EQ(arena->row_bytes(), 12);
  for (int64_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(arena->row(slot), arena->rows() + 12 * slot);
    std::memset(arena->row(slot), static_cast<int>(slot + 1), 12);
  }
  for (int64_t byte = 0; byte < 60; ++byte) {
    EXPECT_EQ(arena->rows()[byte], static_cast<std::byte>(byte / 12 + 1));
  }
}

TEST(SlotArenaTest, BeginsAtAPageOrAHugePage) {
  const auto small = SlotArena::Make(1, 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small->rows()) % 4096, 0u);
  auto large = SlotArena::Make(1 << 13, 512);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large->rows()) % (2 << 20), 0u);
  std::memset(large->row(0), 1, 512 << 13);
}

TEST(SlotArenaTest, MayHaveNoSlots) {
  const auto arena = SlotArena::Make(0, 8);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->num_slots(), 0);
  EXPECT_EQ(arena->rows(), nullptr);
}

TEST(SlotArenaTest, MovesTakeTheMemoryAlong) {
  auto arena = *SlotArena::Make(2, 8);
  arena.row(1)[7] = std::byte{9};
  SlotArena other = std::move(arena);
  EXPECT_EQ(other.row(1)[7], std::byte{9});
}

TEST(SlotArenaTest, RefusesWhatTheSystemHasNotNamingTheNumbers) {
  const auto refused = SlotArena::Make(int64_t{1} << 40, 1 << 16);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_NE(refused.status().message().find("1099511627776"),
            absl::string_view::npos)
      << refused.status();
  EXPECT_TRUE(absl::IsResourceExhausted(
      SlotArena::Make(int64_t{1} << 60, 1 << 16).status()));
}

}  // namespace

}  // namespace hearth::cache
