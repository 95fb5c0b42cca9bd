#include "engine/strategy/gids/batch_assembler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/store/array_type.h"
#include "engine/store/feature_rows.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNumLines = 3;
constexpr int64_t kDim = 5;

struct AssemblerCase {
  std::string name;
  store::DType dtype;
  bool on_device;
};

class BatchAssemblerTest : public ::testing::TestWithParam<AssemblerCase> {
 protected:
  BatchAssemblerTest() {
    auto made = GetParam().on_device
                    ? NewDeviceAssembler(fake_.device(), kNumLines, format_)
                    : NewHostAssembler(kNumLines, format_);
    EXPECT_TRUE(made.ok()) << made.status();
    assembler_ = *std::move(made);
  }

  // Rows as stored. All elements of a row have one value, a small number, whose
  // upper half is a bfloat16.
  std::vector<std::byte> Rows(const std::vector<float>& values) const {
    std::vector<std::byte> rows;
    const size_t bytes = static_cast<size_t>(store::SizeOf(format_.dtype));
    if (format_.dtype == store::DType::kScaledInt8) {
      return ScaledRows(values);
    }
    for (const float value : values) {
      const auto* end = reinterpret_cast<const std::byte*>(&value + 1);
      for (int64_t i = 0; i < kDim; ++i) {
        rows.insert(rows.end(), end - bytes, end);
      }
    }
    return rows;
  }

  // Rows with a scale of 1.
  static std::vector<std::byte> ScaledRows(const std::vector<float>& values) {
    std::vector<std::byte> rows;
    const float scale = 1;
    const auto* const behind = reinterpret_cast<const std::byte*>(&scale);
    for (const float value : values) {
      rows.insert(rows.end(), kDim, static_cast<std::byte>(value));
      rows.insert(rows.end(), behind, behind + sizeof(scale));
    }
    return rows;
  }

  // The first column of the batch's rows; expects that all columns are equal.
  std::vector<float> Assemble(const LocatedRows& rows,
                              const std::vector<float>& missing) {
    const std::vector<std::byte> stored = Rows(missing);
    std::vector<float> out(static_cast<size_t>(rows.num_rows() * kDim), -1);
    const absl::Status status = assembler_->Assemble(
        {.rows = rows, .buffer = no_buffer_, .missing = stored}, out.data());
    EXPECT_TRUE(status.ok()) << status;
    std::vector<float> column;
    for (size_t i = 0; i < out.size(); i += kDim) {
      for (int64_t j = 0; j < kDim; ++j) EXPECT_EQ(out[i + j], out[i]);
      column.push_back(out[i]);
    }
    return column;
  }

  const store::RowFormat format_ = {.dim = kDim, .dtype = GetParam().dtype};
  const ConstantBuffer no_buffer_;
  cuda::FakeCuda fake_;
  std::unique_ptr<BatchAssembler> assembler_;
};

TEST_P(BatchAssemblerTest, LinesKeepRowsAsStoredUntilOthersTakeThem) {
  LocatedRows first;
  first.missing_positions = {2, 0, 1};
  first.entering = {0, 2};
  first.entering_lines = {1, 0};
  EXPECT_EQ(Assemble(first, {1, 2, 4}), (std::vector<float>{2, 4, 1}));
  // Line 1 is needed by the batch whose row takes it.
  LocatedRows second;
  second.lines = {1, 0};
  second.line_positions = {0, 2};
  second.missing_positions = {1};
  second.entering = {0};
  second.entering_lines = {1};
  EXPECT_EQ(Assemble(second, {8}), (std::vector<float>{1, 8, 4}));
  assembler_->Rest();
  LocatedRows third;
  third.lines = {1, 0};
  third.line_positions = {1, 0};
  EXPECT_EQ(Assemble(third, {}), (std::vector<float>{4, 8}));
}

TEST_P(BatchAssemblerTest, AnEmptyShardHasNoRows) {
  EXPECT_TRUE(Assemble({}, {}).empty());
}

TEST_P(BatchAssemblerTest, RowsStayOnADeviceAlone) {
  const LocatedRows none;
  const auto rows = assembler_->AssembleOnDevice(
      {.rows = none, .buffer = no_buffer_, .missing = {}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows != nullptr, GetParam().on_device);
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, BatchAssemblerTest,
    // Rows of bfloat16 have 10 bytes, those of int8 9: no whole number of
    // float32.
    ::testing::Values(
        AssemblerCase{"HostFloat32", store::DType::kFloat32, false},
        AssemblerCase{"HostBFloat16", store::DType::kBFloat16, false},
        AssemblerCase{"HostScaledInt8", store::DType::kScaledInt8, false},
        AssemblerCase{"DeviceFloat32", store::DType::kFloat32, true},
        AssemblerCase{"DeviceBFloat16", store::DType::kBFloat16, true},
        AssemblerCase{"DeviceScaledInt8", store::DType::kScaledInt8, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hearth::strategy
