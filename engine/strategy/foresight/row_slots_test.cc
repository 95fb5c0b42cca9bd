#include "engine/strategy/foresight/row_slots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/store/array_type.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/foresight/gpu_slots.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 50;
constexpr uint32_t kFree = RowSlots::kFree;

// Where the first half of the slots is.
enum class Where { kHost, kGpuAtOnce, kGpuWhenWaitedFor };

// The row of node n is {n, n + 0.5}.
class RowSlotsTest : public ::testing::TestWithParam<Where> {
 protected:
  RowSlotsTest() {
    if (GetParam() == Where::kHost) return;
    fake_.emplace(GetParam() == Where::kGpuAtOnce
                      ? cuda::FakeCuda::Work::kAtOnce
                      : cuda::FakeCuda::Work::kWhenWaitedFor);
  }

  RowSlots Make(int64_t num_slots) {
    return *TryMake(num_slots, {.dim = 2, .dtype = store::DType::kFloat32});
  }

  absl::StatusOr<RowSlots> TryMake(int64_t num_slots,
                                   const store::RowFormat& format) {
    std::unique_ptr<GpuSlots> gpu;
    if (fake_.has_value()) {
      gpu = *GpuSlots::Make(fake_->device(), num_slots / 2, format);
    }
    return RowSlots::Make(num_slots, format, std::move(gpu));
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
    const absl::Status status =
        slots.Write(row.slot, reinterpret_cast<const std::byte*>(&values));
    EXPECT_TRUE(status.ok()) << status;
  }

  static void ExpectRows(RowSlots& slots, const std::vector<uint32_t>& nodes) {
    ASSERT_EQ(std::vector<uint32_t>(slots.nodes().begin(), slots.nodes().end()),
              nodes);
    for (uint32_t slot = 0; slot < nodes.size(); ++slot) {
      if (nodes[slot] == kFree) continue;
      float values[2];
      ASSERT_EQ(slots.Read(slot, reinterpret_cast<std::byte*>(&values)),
                absl::OkStatus());
      ASSERT_EQ(slots.Flush(), absl::OkStatus());
      EXPECT_EQ(values[0], static_cast<float>(nodes[slot]));
      EXPECT_EQ(values[1], static_cast<float>(nodes[slot]) + 0.5F);
    }
  }

  std::optional<cuda::FakeCuda> fake_;
};

TEST_P(RowSlotsTest, RowsMoveAndOthersAreLoaded) {
  RowSlots slots = Make(6);
  EXPECT_EQ(Arrange(slots, {9, 8, 7, kFree, 5, 4}), 5);
  ExpectRows(slots, {9, 8, 7, kFree, 5, 4});
  EXPECT_EQ(Arrange(slots, {9, 8, 7, kFree, 5, 4}), 0);
  // A ring of three, a chain that ends with a row to load, a row that goes.
  EXPECT_EQ(Arrange(slots, {8, 7, 9, 4, kFree, 1}), 1);
  ExpectRows(slots, {8, 7, 9, 4, kFree, 1});
}

TEST_P(RowSlotsTest, AnyArrangementFollowsAnyOther) {
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

TEST_P(RowSlotsTest, AFailedLoadLeavesTheSlotsFree) {
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

// Rows of two megabytes move two at a time, in many turns.
TEST_P(RowSlotsTest, LargeRowsMoveInTurns) {
  constexpr int64_t kDim = 1 << 19;
  RandomStream random(4, RandomPurpose::kGenerator);
  auto made = TryMake(12, {.dim = kDim, .dtype = store::DType::kFloat32});
  ASSERT_TRUE(made.ok()) << made.status();
  RowSlots slots = *std::move(made);
  std::vector<float> row(kDim);
  const auto* bytes = reinterpret_cast<const std::byte*>(row.data());
  std::vector<uint32_t> wanted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (int round = 0; round < 10; ++round) {
    const absl::Status status = slots.Arrange(
        wanted, [&](absl::Span<const RowSlots::Placed> rows) -> absl::Status {
          for (const RowSlots::Placed& placed : rows) {
            std::fill(row.begin(), row.end(), static_cast<float>(placed.node));
            const absl::Status written = slots.Write(placed.slot, bytes);
            if (!written.ok()) return written;
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t slot = 0; slot < wanted.size(); ++slot) {
      ASSERT_EQ(slots.Read(slot, reinterpret_cast<std::byte*>(row.data())),
                absl::OkStatus());
      ASSERT_EQ(slots.Flush(), absl::OkStatus());
      EXPECT_EQ(row.front(), static_cast<float>(wanted[slot]));
      EXPECT_EQ(row.back(), static_cast<float>(wanted[slot]));
    }
    for (size_t i = wanted.size(); i > 1; --i) {
      std::swap(wanted[i - 1], wanted[random.Below(i)]);
    }
    wanted[random.Below(wanted.size())] = 100 + static_cast<uint32_t>(round);
  }
}

// Their bytes are no multiple of four.
TEST_P(RowSlotsTest, RowsOfOddBytesMove) {
  auto made = TryMake(6, {.dim = 1, .dtype = store::DType::kBFloat16});
  ASSERT_TRUE(made.ok()) << made.status();
  for (std::vector<uint32_t> wanted :
       {std::vector<uint32_t>{1, 2, 3, 4, 5, 6}, {6, 1, 2, 3, 9, 4}}) {
    const absl::Status status = made->Arrange(
        wanted, [&](absl::Span<const RowSlots::Placed> rows) -> absl::Status {
          for (const RowSlots::Placed& placed : rows) {
            const auto value = static_cast<uint16_t>(placed.node);
            const absl::Status written = made->Write(
                placed.slot, reinterpret_cast<const std::byte*>(&value));
            if (!written.ok()) return written;
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t slot = 0; slot < wanted.size(); ++slot) {
      uint16_t value = 0;
      ASSERT_EQ(made->Read(slot, reinterpret_cast<std::byte*>(&value)),
                absl::OkStatus());
      ASSERT_EQ(made->Flush(), absl::OkStatus());
      EXPECT_EQ(value, wanted[slot]);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Where>& info) {
  constexpr const char* kNames[] = {"Host", "GpuAtOnce", "GpuWhenWaitedFor"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Where, RowSlotsTest,
                         ::testing::Values(Where::kHost, Where::kGpuAtOnce,
                                           Where::kGpuWhenWaitedFor),
                         NameOf);

}  // namespace
}  // namespace hearth::strategy
