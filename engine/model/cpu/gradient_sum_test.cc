#include "engine/model/cpu/gradient_sum.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/thread_team.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using Arrays = std::vector<std::vector<float>>;

// Values of many magnitudes and both signs: their sums depend on the order.
Arrays MakeArrays(int count, size_t size) {
  Arrays arrays(count, std::vector<float>(size));
  uint32_t state = 1;
  for (std::vector<float>& array : arrays) {
    for (float& value : array) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(static_cast<int32_t>(state)) /
              static_cast<float>(1 << (state % 29));
    }
  }
  return arrays;
}

std::vector<float> InOrder(const Arrays& arrays) {
  std::vector<float> sum = arrays.front();
  for (size_t array = 1; array < arrays.size(); ++array) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += arrays[array][i];
  }
  return sum;
}

std::vector<absl::Span<float>> Spans(Arrays& arrays) {
  std::vector<absl::Span<float>> spans;
  for (std::vector<float>& array : arrays)
    spans.push_back(absl::MakeSpan(array));
  return spans;
}

void ExpectSame(const std::vector<float>& one,
                const std::vector<float>& other) {
  ASSERT_EQ(one.size(), other.size());
  // An empty vector may have no address.
  if (one.empty()) return;
  EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)),
            0);
}

TEST(GradientSumTest, EveryArrayGetsTheSumInTheirOrder) {
  for (const int count : {1, 2, 3, 5}) {
    for (const size_t size : {0, 1, 2, 15, 16, 17, 1023, 5000, 65537}) {
      for (const int parts : {1, 2, 3, 7}) {
        SCOPED_TRACE(std::to_string(count) + " arrays of " +
                     std::to_string(size) + ", parts " + std::to_string(parts));
        Arrays arrays = MakeArrays(count, size);
        const std::vector<float> expected = InOrder(arrays);
        const std::vector<absl::Span<float>> spans = Spans(arrays);
        for (int part = 0; part < parts; ++part) SumPart(spans, part, parts);
        for (const std::vector<float>& array : arrays) {
          ExpectSame(array, expected);
        }
      }
    }
  }
}

// The test above would pass for any order if order did not matter.
TEST(GradientSumTest, TheOrderMatters) {
  Arrays arrays = MakeArrays(3, 1000);
  const std::vector<float> expected = InOrder(arrays);
  std::swap(arrays[0], arrays[2]);
  EXPECT_NE(InOrder(arrays), expected);
}

TEST(GradientSumTest, PartsAreIndependent) {
  constexpr int kMembers = 4;
  const auto team = ThreadTeam::Create(kMembers);
  ASSERT_TRUE(team.ok()) << team.status();
  for (const size_t size : {3, 40, 100000}) {
    Arrays arrays = MakeArrays(kMembers, size);
    const std::vector<float> expected = InOrder(arrays);
    const std::vector<absl::Span<float>> spans = Spans(arrays);
    const absl::Status status = (*team)->RunWorkers([&](int member) {
      SumPart(spans, member, kMembers);
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    for (const std::vector<float>& array : arrays) ExpectSame(array, expected);
  }
}

TEST(GradientSumTest, APartTouchesNoOther) {
  Arrays arrays = MakeArrays(2, 100);
  const Arrays before = arrays;
  const std::vector<absl::Span<float>> spans = Spans(arrays);
  // Two parts share the seven lines of 16 elements as three and four.
  SumPart(spans, 1, 2);
  const std::vector<float> sum = InOrder(before);
  for (int array = 0; array < 2; ++array) {
    for (size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(arrays[array][i], i < 48 ? before[array][i] : sum[i]) << i;
    }
  }
}

}  // namespace
}  // namespace hearth::model
