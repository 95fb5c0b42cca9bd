#include "engine/cache/slot_arena.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

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
