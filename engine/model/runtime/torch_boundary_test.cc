#include "engine/model/runtime/torch_boundary.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <new>
#include <thread>

#include "gtest/gtest.h"

namespace hearth::model {
namespace {

int ThreadsWithin(int threads) {
  int seen = 0;
  const absl::Status status = RunTorch(threads, [&] {
    seen = at::get_num_threads();
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok());
  return seen;
}

TEST(RunTorchTest, ThreadsAreThoseOfTheCallAndThreadAlone) {
  const int before = at::get_num_threads();
  EXPECT_EQ(ThreadsWithin(3), 3);
  EXPECT_EQ(at::get_num_threads(), before);
  std::thread other([] {
    EXPECT_EQ(ThreadsWithin(5), 5);
    EXPECT_EQ(ThreadsWithin(1), 1);
  });
  EXPECT_EQ(ThreadsWithin(4), 4);
  other.join();
}

TEST(RunTorchTest, GivesTheStatusOfTheFunction) {
  EXPECT_TRUE(RunTorch(1, [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(RunTorch(1, [] { return absl::DataLossError("x"); }).code(),
            absl::StatusCode::kDataLoss);
}

TEST(RunTorchTest, OutOfMemoryBecomesResourceExhausted) {
  const absl::Status huge = RunTorch(1, [] {
    at::empty({int64_t{1} << 45}, at::kFloat);
    return absl::OkStatus();
  });
  EXPECT_EQ(huge.code(), absl::StatusCode::kResourceExhausted) << huge;
  const absl::Status plain =
      RunTorch(1, []() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(plain.code(), absl::StatusCode::kResourceExhausted);
}

TEST(RunTorchTest, OtherExceptionsBecomeInternal) {
  const absl::Status mismatch = RunTorch(1, [] {
    at::mm(at::empty({2, 3}, at::kFloat), at::empty({2, 3}, at::kFloat));
    return absl::OkStatus();
  });
  EXPECT_EQ(mismatch.code(), absl::StatusCode::kInternal);
  EXPECT_NE(mismatch.message().find("mat1 and mat2"), std::string::npos)
      << mismatch;
}

}  // namespace
}  // namespace hearth::model
