#include "engine/model/all_reduce.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/team.h"
#include "engine/model/torch_boundary.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

// A group of ranks, each on a thread of its own.
class Group {
 public:
  explicit Group(int size,
                 std::chrono::milliseconds timeout = std::chrono::minutes(5))
      : meeting_(size, timeout), ranks_(size) {
    auto team = Team::Start(size);
    EXPECT_TRUE(team.ok()) << team.status();
    team_ = *std::move(team);
    EXPECT_TRUE(Run([this](int rank) {
                  ranks_[rank] = std::make_unique<AllReduce>(meeting_, rank);
                }).ok());
  }

  // Each rank's sum of all ranks' tensors.
  absl::Status Sum(const std::vector<at::Tensor>& tensors) {
    return Run([&](int rank) { ranks_[rank]->Sum(tensors[rank]); });
  }

  // The same without the last rank.
  absl::Status SumWithoutLast(const std::vector<at::Tensor>& tensors) {
    return Run([&](int rank) {
      if (ranks_[rank] != ranks_.back()) ranks_[rank]->Sum(tensors[rank]);
    });
  }

 private:
  template <typename F>
  absl::Status Run(F work) {
    return team_->Run([&](int rank) {
      return RunTorch(1, [&] {
        work(rank);
        return absl::OkStatus();
      });
    });
  }

  AllReduceMeeting meeting_;
  std::vector<std::unique_ptr<AllReduce>> ranks_;
  std::unique_ptr<Team> team_;
};

// Element i of rank r; sums depend on their order.
float Element(int64_t i, int rank) {
  return 1.0f / static_cast<float>(1 + i + 7 * rank);
}

std::vector<at::Tensor> Tensors(int ranks, int64_t size) {
  std::vector<at::Tensor> tensors;
  for (int rank = 0; rank < ranks; ++rank) {
    tensors.push_back(at::empty({size}, at::kFloat));
    auto* data = tensors.back().mutable_data_ptr<float>();
    for (int64_t i = 0; i < size; ++i) data[i] = Element(i, rank);
  }
  return tensors;
}

TEST(AllReduceTest, AllRanksGetTheSumOfAll) {
  for (const int ranks : {1, 2, 3, 5}) {
    Group group(ranks);
    for (const int64_t size : {1, 2, 31, 1000, 300000}) {
      const std::vector<at::Tensor> sums = Tensors(ranks, size);
      const absl::Status status = group.Sum(sums);
      ASSERT_TRUE(status.ok()) << status;
      for (const int64_t i : {int64_t{0}, size / 2, size - 1}) {
        double expected = 0;
        for (int rank = 0; rank < ranks; ++rank) expected += Element(i, rank);
        EXPECT_NEAR(sums[0].const_data_ptr<float>()[i], expected, 1e-6)
            << ranks << " ranks, element " << i << " of " << size;
      }
      for (const at::Tensor& sum : sums) {
        EXPECT_TRUE(at::equal(sum, sums[0])) << "the same in every bit";
      }
    }
  }
}

TEST(AllReduceTest, RepeatsBitForBit) {
  constexpr int kRanks = 3;
  constexpr int64_t kSize = 100001;
  const std::vector<at::Tensor> first = Tensors(kRanks, kSize);
  ASSERT_TRUE(Group(kRanks).Sum(first).ok());
  Group other(kRanks);
  for (int i = 0; i < 5; ++i) {
    const std::vector<at::Tensor> again = Tensors(kRanks, kSize);
    ASSERT_TRUE(other.Sum(again).ok());
    EXPECT_TRUE(at::equal(again[0], first[0]));
  }
}

// Two groups of one process do not meet each other.
TEST(AllReduceTest, GroupsAreApart) {
  Group one(2);
  Group other(2);
  const std::vector<at::Tensor> ones = Tensors(2, 10);
  const std::vector<at::Tensor> others = Tensors(2, 20);
  ASSERT_TRUE(one.Sum(ones).ok());
  ASSERT_TRUE(other.Sum(others).ok());
  EXPECT_TRUE(at::equal(ones[0], others[0].narrow(0, 0, 10)));
}

TEST(AllReduceTest, ARankThatDoesNotComeFailsTheOthers) {
  Group group(3, std::chrono::milliseconds(200));
  const absl::Status status = group.SumWithoutLast(Tensors(3, 10));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

TEST(AllReduceTest, NobodyWaitsForeverToMeet) {
  const AllReduceMeeting meeting(2, std::chrono::milliseconds(200));
  const absl::Status status = RunTorch(1, [&] {
    AllReduce alone(meeting, 0);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

}  // namespace
}  // namespace hearth::model
