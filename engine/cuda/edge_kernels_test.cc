// The models' kernels on a device, through a stream and the fake.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two destinations and two sources: 0 <- 1, 1 <- 0, 1 <- 1. Rows are of one
// column.
class EdgeKernelsTest : public ::testing::Test {
 protected:
  struct Arrays {
    HearthCudaEdges edges;
    float* weights;
    float* rows;
    float* out;
  };

  // Where kernels may not reach.
  Arrays OnHost() {
    return {.edges = {indptr_.data(), indices_.data(), nullptr, 2},
            .weights = weights_.data(),
            .rows = rows_.data(),
            .out = out_.data()};
  }

  Arrays OnDevice() {
    return {.edges = {ToDevice(indptr_), ToDevice(indices_), nullptr, 2},
            .weights = ToDevice(weights_),
            .rows = ToDevice(rows_),
            .out = ToDevice(out_)};
  }

  template <typename T>
  T* ToDevice(const std::vector<T>& values) {
    const uint64_t bytes = values.size() * sizeof(T);
    memory_.push_back(
        *Memory::Allocate(fake_.device(), Memory::Kind::kDevice, bytes));
    EXPECT_TRUE(
        stream_->Copy(memory_.back().data(), values.data(), bytes).ok());
    return reinterpret_cast<T*>(memory_.back().data());
  }

  // The values of an array that has as many as there are edges.
  std::vector<float> Values(const float* array) {
    std::vector<float> values(3);
    EXPECT_TRUE(stream_->Copy(values.data(), array, 12).ok());
    EXPECT_TRUE(stream_->Wait().ok());
    return values;
  }

  // Each of the functions, on these arrays.
  std::vector<std::function<absl::Status(Stream&)>> Functions(
      const Arrays& at) {
    const HearthCudaScored scored = {at.edges, at.rows, at.rows, nullptr,
                                     1,        1,       1};
    const HearthCudaSoftmax softmax = {at.edges, 1, at.weights, at.out};
    HearthCudaActivate activate = {{}, 2, at.rows, at.weights, at.out};
    activate.activation.scale = 2;
    return {
        [=](Stream& stream) {
          return stream.SumEdges({at.edges, at.weights, at.rows, 1, 1, at.out});
        },
        [=](Stream& stream) {
          return stream.DotEdges({at.edges, at.rows, at.rows, 1, 1, at.out});
        },
        [=](Stream& stream) {
          return stream.ScoreEdges({scored, at.out});
        },
        [=](Stream& stream) { return stream.SoftmaxEdges(softmax); },
        [=](Stream& stream) { return stream.SoftmaxGradient(softmax); },
        [=](Stream& stream) {
          return stream.ScoreGradient(
              {scored, at.weights, at.out, at.weights, 0});
        },
        [=](Stream& stream) { return stream.Activate(activate); },
        [=](Stream& stream) { return stream.ActivationGradient(activate); }};
  }

  FakeCuda fake_;
  std::vector<Memory> memory_;
  std::unique_ptr<Stream> stream_ = *Stream::Create(fake_.device());

 private:
  std::vector<int64_t> indptr_ = {0, 1, 3};
  std::vector<int32_t> indices_ = {1, 0, 1};
  std::vector<float> weights_ = {2, 3, 4};
  std::vector<float> rows_ = {10, -100};
  std::vector<float> out_ = {0, 0, 0};
};

TEST_F(EdgeKernelsTest, Compute) {
  const Arrays at = OnDevice();
  const auto functions = Functions(at);
  const auto result = [&](size_t function) {
    EXPECT_TRUE(functions[function](*stream_).ok());
    return Values(at.out);
  };
  EXPECT_THAT(result(0), ElementsAre(-200, -370, 0));
  EXPECT_THAT(result(1), ElementsAre(-1000, -1000, 10000));
  // LeakyReLU's slope is 0.2.
  EXPECT_THAT(result(2), ElementsAre(-18, -18, -40));
  EXPECT_THAT(result(3),
              ElementsAre(1, testing::FloatNear(1, 1e-6), testing::Gt(0)));
  EXPECT_THAT(result(7), ElementsAre(4, 0, testing::_));
  EXPECT_TRUE(functions[6](*stream_).ok());
  std::vector<float> rows(2);
  EXPECT_TRUE(stream_->Copy(rows.data(), at.rows, 8).ok());
  EXPECT_TRUE(stream_->Wait().ok());
  EXPECT_THAT(rows, ElementsAre(20, 0));
}

TEST_F(EdgeKernelsTest, TouchNothingOfTheHosts) {
  for (const auto& function : Functions(OnHost())) {
    const auto stream = *Stream::Create(fake_.device());
    EXPECT_TRUE(function(*stream).ok());
    EXPECT_THAT(std::string(stream->Wait().message()),
                HasSubstr("illegal memory access"));
  }
}

TEST_F(EdgeKernelsTest, TouchNothingBeyondTheirArrays) {
  for (size_t number = 0; number < 8; ++number) {
    Arrays at = OnDevice();
    // Past the end of all that a function may write to or read.
    at.rows += 2;
    at.out += 3;
    const auto stream = *Stream::Create(fake_.device());
    EXPECT_TRUE(stream_->Wait().ok());
    EXPECT_TRUE(Functions(at)[number](*stream).ok());
    EXPECT_FALSE(stream->Wait().ok()) << number;
  }
}

TEST_F(EdgeKernelsTest, EachMayFailWhenCalled) {
  const Arrays at = OnDevice();
  EXPECT_TRUE(stream_->Wait().ok());
  for (const auto& function : Functions(at)) {
    fake_.FailCall(1);
    const absl::Status status = function(*stream_);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_TRUE(fake_.failed());
  }
  EXPECT_TRUE(stream_->Wait().ok());
}

TEST_F(EdgeKernelsTest, EachMayFailWhenItsTurnComes) {
  const Arrays at = OnDevice();
  EXPECT_TRUE(stream_->Wait().ok());
  for (const auto& function : Functions(at)) {
    const auto stream = *Stream::Create(fake_.device());
    fake_.FailWork(1);
    EXPECT_TRUE(function(*stream).ok());
    EXPECT_TRUE(absl::IsInternal(stream->Wait()));
  }
}

TEST_F(EdgeKernelsTest, AWrappedStreamIsTheOneItWraps) {
  HearthCudaStream* native = nullptr;
  ASSERT_EQ(FakeCuda::table().stream_create(0, &native), 0);
  {
    const auto stream = *Stream::Wrap(fake_.device(), native);
    const Arrays at = OnDevice();
    EXPECT_TRUE(stream_->Wait().ok());
    // Queued on the wrapped stream, awaited on the wrapper.
    const HearthCudaSum sum = {at.edges, at.weights, at.rows, 1, 1, at.out};
    EXPECT_EQ(FakeCuda::table().sum_edges(&sum, native), 0);
    EXPECT_TRUE(stream->Wait().ok());
    EXPECT_THAT(Values(at.out), ElementsAre(-200, -370, 0));
  }
  EXPECT_EQ(FakeCuda::table().stream_destroy(native), 0);
}

TEST_F(EdgeKernelsTest, AStreamThatCannotBeWrappedIsNone) {
  HearthCudaStream* native = nullptr;
  ASSERT_EQ(FakeCuda::table().stream_create(0, &native), 0);
  for (const int64_t nth : {1, 2}) {
    fake_.FailCall(nth);
    EXPECT_TRUE(
        absl::IsInternal(Stream::Wrap(fake_.device(), native).status()));
  }
  EXPECT_EQ(FakeCuda::table().stream_destroy(native), 0);
}

}  // namespace
}  // namespace hearth::cuda
