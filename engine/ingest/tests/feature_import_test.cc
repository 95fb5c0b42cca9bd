#include "engine/ingest/import/feature_import.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/import/import_options.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class FeatureImportTest : public testing::Test {
 protected:
  FeatureImportTest() {
    options_.source = folder_.path();
    options_.name = "test";
    options_.destination = folder_.Destination();
  }

  absl::StatusOr<ImportResult> Import() {
    return ImportDataset(io::FileSystem::Posix(), {"numpy"}, options_, nullptr,
                         {});
  }

  /// Writes one feature per node.
  template <typename T>
  void WriteFeatures(const char* descr, const std::vector<T>& values) {
    folder_.Write(
        "node_feat.npy",
        {.descr = descr, .shape = "(6, 1)", .data = store::Raw(values)});
  }

  /// Imported features, read both in memory and mapped.
  template <typename T>
  std::vector<T> ImportAndLoad(store::DType dtype) {
    const auto result = Import();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    transforms_ = result->manifest.transforms;
    const auto dataset =
        *store::Dataset::Open(io::FileSystem::Posix(), folder_.Destination());
    std::vector<T> rows(6), mapped(6);
    const auto load = [&](store::Residency residency, std::vector<T>& out) {
      const auto features = dataset->LoadFeatures(residency);
      ASSERT_TRUE(features.ok()) << features.status();
      ASSERT_EQ((*features)->dtype(), dtype);
      ASSERT_EQ((*features)->row_bytes(), int64_t{sizeof(T)});
      std::memcpy(out.data(), (*features)->rows(), 6 * sizeof(T));
    };
    load(store::Residency::kMemory, rows);
    load(store::Residency::kMapped, mapped);
    EXPECT_EQ(std::memcmp(rows.data(), mapped.data(), 6 * sizeof(T)), 0);
    EXPECT_TRUE(io::FileSystem::Posix().RemoveTree(folder_.Destination()).ok());
    return rows;
  }

  store::NumpyFolder folder_;
  ImportOptions options_;
  std::vector<std::string> transforms_;
};

TEST_F(FeatureImportTest, KeepsWhatIsNotFinite) {
  options_.non_finite = NonFinite::kKeep;
  for (const bool in_place : {false, true}) {
    options_.in_place = in_place;
    WriteFeatures<float>("<f4", {1, NAN, kInfinity, -kInfinity, 0, 2});
    const auto rows = ImportAndLoad<float>(store::DType::kFloat32);
    EXPECT_EQ(rows[0], 1);
    EXPECT_TRUE(std::isnan(rows[1]));
    EXPECT_EQ(rows[2], kInfinity);
    EXPECT_EQ(rows[3], -kInfinity);
    EXPECT_EQ(rows[5], 2);
    EXPECT_THAT(transforms_, Not(Contains(HasSubstr("became 0"))));
  }
}

TEST_F(FeatureImportTest, ZeroesWhatIsNotFiniteAndTellsHowMuch) {
  options_.non_finite = NonFinite::kZero;
  const char* transform =
      "3 values of node_feat.npy that were NaN or infinite became 0";
  WriteFeatures<float>("<f4", {1, NAN, kInfinity, -kInfinity, 0, 2});
  EXPECT_THAT(ImportAndLoad<float>(store::DType::kFloat32),
              ElementsAre(1, 0, 0, 0, 0, 2));
  EXPECT_THAT(transforms_, Contains(transform));

  WriteFeatures<double>("<f8", {1, NAN, kInfinity, -kInfinity, 0, 2});
  EXPECT_THAT(ImportAndLoad<float>(store::DType::kFloat32),
              ElementsAre(1, 0, 0, 0, 0, 2));
  EXPECT_THAT(transforms_, Contains(transform));

  WriteFeatures<uint16_t>("<f2",
                          {0x3C00, 0x7E00, 0x7C00, 0xFC00, 0x7BFF, 0x7F80});
  EXPECT_THAT(ImportAndLoad<uint16_t>(store::DType::kFloat16),
              ElementsAre(0x3C00, 0, 0, 0, 0x7BFF, 0));
  EXPECT_THAT(transforms_, Contains(HasSubstr("4 values of node_feat.npy")));

  WriteFeatures<float>("<f4", {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ImportAndLoad<float>(store::DType::kFloat32),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(transforms_, Not(Contains(HasSubstr("became 0"))));
}

TEST_F(FeatureImportTest, WhatIsUsedInPlaceCannotBecomeZero) {
  options_.non_finite = NonFinite::kZero;
  options_.in_place = true;
  const absl::Status status = Import().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("in place"));
}

TEST_F(FeatureImportTest, WhatAFloat32CannotHoldIsNeitherKeptNorZeroed) {
  for (const NonFinite choice : {NonFinite::kKeep, NonFinite::kZero}) {
    options_.non_finite = choice;
    WriteFeatures<double>("<f8", {NAN, 0, 1e300, 0, 0, 0});
    const absl::Status status = Import().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("[2, 0] is 1e+300, more than a float32 can hold"));
  }
}

TEST_F(FeatureImportTest, TakesUint16AsBFloat16) {
  std::vector<uint16_t> values;
  for (const float value : {1.0f, -2.5f, 0.0f, 1e30f, 1e-30f, 3.0f}) {
    values.push_back(store::FloatToBFloat16(value));
  }
  options_.bfloat16_features = true;
  for (const bool in_place : {false, true}) {
    options_.in_place = in_place;
    WriteFeatures("<u2", values);
    EXPECT_EQ(ImportAndLoad<uint16_t>(store::DType::kBFloat16), values);
    EXPECT_THAT(transforms_,
                Contains("node_feat.npy: uint16 taken as bfloat16"));
  }
}

TEST_F(FeatureImportTest, NonFiniteBFloat16IsRefusedOrZeroed) {
  options_.bfloat16_features = true;
  // The second value is infinite as float16 only.
  WriteFeatures<uint16_t>("<u2", {0x3F80, 0x7C00, 0, 0x7F80, 0xFFC0, 0});
  EXPECT_THAT(std::string(Import().status().message()),
              HasSubstr("[3, 0] is NaN or infinite"));
  options_.non_finite = NonFinite::kZero;
  EXPECT_THAT(ImportAndLoad<uint16_t>(store::DType::kBFloat16),
              ElementsAre(0x3F80, 0x7C00, 0, 0, 0, 0));
  EXPECT_THAT(transforms_, Contains(HasSubstr("2 values of node_feat.npy")));
}

TEST_F(FeatureImportTest, Uint16AloneIsRefusedNamingTheOption) {
  WriteFeatures<uint16_t>("<u2", {0, 0, 0, 0, 0, 0});
  const absl::Status status = Import().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--bfloat16"));
}

TEST_F(FeatureImportTest, TheOptionChangesNoOtherType) {
  options_.bfloat16_features = true;
  const std::vector<uint16_t> halves = {0x3C00, 0, 0x7BFF, 1, 2, 3};
  WriteFeatures("<f2", halves);
  EXPECT_EQ(ImportAndLoad<uint16_t>(store::DType::kFloat16), halves);
  WriteFeatures<int16_t>("<i2", {0, 0, 0, 0, 0, 0});
  EXPECT_THAT(std::string(Import().status().message()),
              HasSubstr("has int16 elements"));
}

}  // namespace
}  // namespace hearth::ingest
