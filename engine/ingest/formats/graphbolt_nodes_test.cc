#include "engine/ingest/formats/graphbolt_nodes.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/labels.h"
#include "engine/store/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

template <typename T>
std::unique_ptr<ArrayReader> Array(const std::string& name,
                                   const std::vector<T>& values,
                                   std::vector<int64_t> shape = {}) {
  store::ArrayHeader header;
  header.type = {std::is_integral_v<T> ? store::ElementType::Kind::kInt
                                       : store::ElementType::Kind::kFloat,
                 sizeof(T)};
  header.shape = std::move(shape);
  if (header.shape.empty()) {
    header.shape = {static_cast<int64_t>(values.size())};
  }
  std::string bytes(reinterpret_cast<const char*>(values.data()),
                    values.size() * sizeof(T));
  return *ArrayReader::ReadRaw(io::NewMemoryFile(std::move(bytes), name),
                               header);
}

class SetLabelsTest : public testing::Test {
 protected:
  template <typename T>
  void AddSet(const std::vector<int64_t>& seeds, const std::vector<T>& labels,
              std::vector<int64_t> shape = {}) {
    const std::string number = std::to_string(sets_.size());
    sets_.push_back({Array("seeds" + number, seeds),
                     Array("labels" + number, labels, std::move(shape))});
  }

  absl::StatusOr<std::vector<int64_t>> Join(int64_t num_nodes,
                                            uint64_t memory = kMiB) {
    ImportContext context(files_, memory, scratch_.Path("s/scratch"), nullptr,
                          stop_.get_token());
    const auto joined =
        JoinSetLabels(context, num_nodes, "joined", std::nullopt, sets_);
    if (!joined.ok()) return joined.status();
    EXPECT_EQ((*joined)->path(), "joined");
    EXPECT_THAT((*joined)->header().shape, ElementsAre(num_nodes));
    std::vector<int64_t> labels(static_cast<size_t>(num_nodes));
    const absl::Status status = (*joined)->ReadInts(0, absl::MakeSpan(labels));
    if (!status.ok()) return status;
    return labels;
  }

  /// Joins labels other than classes; returns them row by row.
  absl::StatusOr<std::vector<double>> JoinNumbers(
      std::optional<store::LabelKind> kind, int64_t num_nodes, int64_t width,
      uint64_t memory = kMiB) {
    ImportContext context(files_, memory, scratch_.Path("s/scratch"), nullptr,
                          stop_.get_token());
    const auto joined =
        JoinSetLabels(context, num_nodes, "joined", kind, sets_);
    sets_.clear();
    if (!joined.ok()) return joined.status();
    EXPECT_THAT((*joined)->header().shape, ElementsAre(num_nodes, width));
    std::vector<double> labels(static_cast<size_t>(num_nodes * width));
    const absl::Status status =
        (*joined)->ReadFloats(0, absl::MakeSpan(labels));
    if (!status.ok()) return status;
    return labels;
  }

  void ExpectInvalid(const std::string& problem) {
    const absl::Status status = Join(5).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
    sets_.clear();
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  std::stop_source stop_;
  std::vector<SetLabels> sets_;
};

TEST_F(SetLabelsTest, NodesOfNoSetHaveNone) {
  AddSet<int64_t>({4, 0}, {7, 2});
  AddSet<float>({1}, {3}, {1, 1});
  AddSet<double>({3}, {NAN});
  EXPECT_THAT(*Join(5), ElementsAre(2, 3, -1, -1, 7));
  sets_.clear();
  EXPECT_THAT(*Join(2), ElementsAre(-1, -1));
}

TEST_F(SetLabelsTest, ANodeMayBeGivenTwiceWithOneLabel) {
  AddSet<int64_t>({1, 1}, {6, 6});
  AddSet<int64_t>({1}, {6});
  EXPECT_THAT(*Join(2), ElementsAre(-1, 6));
}

TEST_F(SetLabelsTest, TwoLabelsOfANodeAreRefused) {
  AddSet<int64_t>({1}, {6});
  AddSet<int64_t>({0, 1}, {0, 5});
  ExpectInvalid("labels1: [1] is 5, but node 1 has the label 6 already");
  // Unlabeled differs from 6.
  AddSet<float>({1, 1}, {6, NAN});
  ExpectInvalid("labels0: [1] is nan, but node 1 has the label 6 already");
}

TEST_F(SetLabelsTest, IdsOutOfRangeAreRefused) {
  AddSet<int64_t>({0, 5}, {0, 0});
  ExpectInvalid("seeds0: [1] is 5; node ids are 0 .. 4");
  AddSet<int64_t>({-1}, {0});
  ExpectInvalid("seeds0: [0] is -1");
}

TEST_F(SetLabelsTest, WhatIsNoLabelIsRefused) {
  for (const double label : {-2.0, 0.5, 1e9, double{INFINITY}}) {
    AddSet<double>({2}, {label});
    ExpectInvalid("labels0: [0] is ");
  }
  AddSet<int64_t>({2}, {-2});
  ExpectInvalid("labels0: [0] is -2");
}

TEST_F(SetLabelsTest, NumbersAreTakenWhereTheyAreAskedFor) {
  const auto is_nan = testing::IsNan();
  AddSet<double>({4, 0}, {0.5, -7});
  AddSet<int64_t>({1}, {3}, {1, 1});
  EXPECT_THAT(*JoinNumbers(store::LabelKind::kTargets, 5, 1),
              ElementsAre(-7, 3, is_nan, is_nan, 0.5));
  AddSet<double>({2}, {0.5});
  ExpectInvalid("labels0: [0] is 0.5, not a whole number; --labels targets");
  AddSet<double>({2}, {1e39});
  EXPECT_THAT(
      std::string(
          JoinNumbers(store::LabelKind::kTargets, 5, 1).status().message()),
      HasSubstr("labels0: [0] is 1e+39, more than a float32 can hold"));
}

TEST_F(SetLabelsTest, SeveralColumnsAreSeveralLabels) {
  const auto is_nan = testing::IsNan();
  for (const std::optional<store::LabelKind> kind :
       {std::optional<store::LabelKind>(),
        {store::LabelKind::kMultiLabel},
        {store::LabelKind::kTargets}}) {
    AddSet<int64_t>({2, 0}, {1, 0, 0, 1}, {2, 2});
    AddSet<float>({3, 2}, {NAN, NAN, 1, 0}, {2, 2});
    EXPECT_THAT(*JoinNumbers(kind, 4, 2),
                ElementsAre(0, 1, is_nan, is_nan, 1, 0, is_nan, is_nan));
  }
  AddSet<int64_t>({2}, {1, 0}, {1, 2});
  AddSet<float>({2}, {1, NAN}, {1, 2});
  ExpectInvalid("labels1: [0, 1] is nan, but node 2 has the label 0 already");
}

TEST_F(SetLabelsTest, ShapesThatDoNotFitAreRefused) {
  AddSet<int64_t>({0, 1}, {0});
  ExpectInvalid("labels0");
  AddSet<int64_t>({0}, {0, 1}, {1, 2});
  AddSet<int64_t>({1}, {0, 1, 0}, {1, 3});
  ExpectInvalid("labels1: has 3 columns; labels0 has 2");
  AddSet<int64_t>({0}, {0, 1}, {1, 2});
  const absl::Status refused =
      JoinNumbers(store::LabelKind::kClasses, 5, 2).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("as of classes"));
}

TEST_F(SetLabelsTest, RowsOfManyColumnsTakeSeveralPasses) {
  // 1 MiB holds 65 rows at a time.
  constexpr int64_t kWidth = 1000;
  std::vector<int64_t> seeds;
  std::vector<float> labels;
  for (int64_t i = 0; i < 100; ++i) {
    seeds.push_back(199 - 2 * i);
    for (int64_t column = 0; column < kWidth; ++column) {
      labels.push_back(static_cast<float>(seeds.back() * kWidth + column));
    }
  }
  AddSet(seeds, labels, {100, kWidth});
  const auto joined = JoinNumbers(store::LabelKind::kTargets, 200, kWidth);
  ASSERT_TRUE(joined.ok()) << joined.status();
  for (int64_t i = 0; i < 200 * kWidth; ++i) {
    const double label = (*joined)[static_cast<size_t>(i)];
    if (i / kWidth % 2 == 0) {
      ASSERT_TRUE(std::isnan(label)) << i;
    } else {
      ASSERT_EQ(label, i);
    }
  }
}

TEST_F(SetLabelsTest, NodesThatDoNotFitMemoryTakeSeveralPasses) {
  // 1 MiB holds 65,536 nodes at a time.
  const int64_t num_nodes = 200'001;
  std::vector<int64_t> seeds, labels, expected(num_nodes, -1);
  for (int64_t i = 0; i < num_nodes; i += 3) {
    seeds.push_back(num_nodes - 1 - i);
    labels.push_back(i % 1000);
    expected[static_cast<size_t>(seeds.back())] = labels.back();
  }
  AddSet(seeds, labels);
  const auto joined = Join(num_nodes);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(*joined == expected);
  // A mistake beyond the first window is found in any pass.
  sets_.clear();
  labels.back() = -7;
  AddSet(seeds, labels);
  EXPECT_TRUE(absl::IsInvalidArgument(Join(num_nodes).status()));
}

TEST_F(SetLabelsTest, CancellationAndFailedCallsAreTold) {
  AddSet<int64_t>({1}, {6});
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status = Join(2).status();
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsUnavailable(status), hit) << status;
  }
  files_.Clear();
  files_.LimitSpace(7);
  EXPECT_TRUE(absl::IsResourceExhausted(Join(2).status()));
  files_.Clear();
  stop_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Join(2).status()));
}

}  // namespace
}  // namespace hearth::ingest
