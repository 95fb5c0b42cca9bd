#include "engine/strategy/foresight/row_slots.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/store/array_type.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 50;
constexpr uint32_t kFree = RowSlots::kFree;

// The row of node n is {n, n + 0.5}.
class RowSlotsTest : public ::testing::Test {
 protected:
  RowSlots Make(int64_t num_slots) {
    return *RowSlots::Make(num_slots,
                           {.dim = 2, .dtype = store::DType::kFloat32});
  }

  // Arranges and counts the rows that were loaded.
  static int64_t Arrange(RowSlots& slots, const std::vector<uint32_t>& wanted) {
    int64_t loaded = 0;
    const absl::Status status =
        slots.Arrange(wanted, [&](absl::Span<const RowSlots::Placed> rows) {
          EXPECT_TRUE(std::is_sorted(
              rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.node < b.node; }));
          for (const RowSlots::Placed& row : rows) Write(slots, row);
          loaded += std::ssize(rows);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return loaded;
  }

  static void Write(RowSlots& slots, const RowSlots::Placed& row) {
    const float values[] = {static_cast<float>(row.node),
                            static_cast<float>(row.node) + 0.5F};
    std::memcpy(slots.row(row.slot), values, sizeof(values));
  }

  static void ExpectRows(RowSlots& slots, const std::vector<uint32_t>& nodes) {
    ASSERT_EQ(std::vector<uint32_t>(slots.nodes().begin(), slots.nodes().end()),
              nodes);
    for (uint32_t slot = 0; slot < nodes.size(); ++slot) {
      if (nodes[slot] == kFree) continue;
      float values[2];
      std::memcpy(values, slots.row(slot), sizeof(values));
      EXPECT_EQ(values[0], static_cast<float>(nodes[slot]));
      EXPECT_EQ(values[1], static_cast<float>(nodes[slot]) + 0.5F);
    }
  }
};

TEST_F(RowSlotsTest, RowsMoveAndOthersAreLoaded) {
  RowSlots slots = Make(6);
  EXPECT_EQ(Arrange(slots, {9, 8, 7, kFree, 5, 4}), 5);
  ExpectRows(slots, {9, 8, 7, kFree, 5, 4});
  EXPECT_EQ(Arrange(slots, {9, 8, 7, kFree, 5, 4}), 0);
  // A ring of three, a chain that ends with a row to load, a row that goes.
  EXPECT_EQ(Arrange(slots, {8, 7, 9, 4, kFree, 1}), 1);
  ExpectRows(slots, {8, 7, 9, 4, kFree, 1});
}

TEST_F(RowSlotsTest, AnyArrangementFollowsAnyOther) {
  RandomStream random(3, RandomPurpose::kGenerator);
  for (const int64_t num_slots : {0, 1, 2, 17, 60}) {
    RowSlots slots = Make(num_slots);
    for (int round = 0; round < 200; ++round) {
      std::vector<uint32_t> nodes(kNodes);
      for (uint32_t node = 0; node < kNodes; ++node) nodes[node] = node;
      for (size_t i = nodes.size(); i > 1; --i) {
        std::swap(nodes[i - 1], nodes[random.Below(i)]);
      }
      std::vector<uint32_t> wanted(static_cast<size_t>(num_slots), kFree);
      int64_t missing = 0;
      for (uint32_t& slot : wanted) {
        if (nodes.empty() || random.Below(5) == 0) continue;
        slot = nodes.back();
        nodes.pop_back();
        const auto held = slots.nodes();
        missing += std::find(held.begin(), held.end(), slot) == held.end();
      }
      EXPECT_EQ(Arrange(slots, wanted), missing);
      ExpectRows(slots, wanted);
    }
  }
}

TEST_F(RowSlotsTest, AFailedLoadLeavesTheSlotsFree) {
  RowSlots slots = Make(3);
  Arrange(slots, {1, 2, 3});
  const std::vector<uint32_t> wanted = {2, 1, 7};
  const absl::Status status =
      slots.Arrange(wanted, [](absl::Span<const RowSlots::Placed>) {
        return absl::UnavailableError("the disk");
      });
  EXPECT_TRUE(absl::IsUnavailable(status));
  ExpectRows(slots, {2, 1, kFree});
  EXPECT_EQ(Arrange(slots, wanted), 1);
  ExpectRows(slots, wanted);
}

}  // namespace
}  // namespace hearth::strategy
