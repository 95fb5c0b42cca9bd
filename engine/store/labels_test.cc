#include "engine/store/labels.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void ExpectRefused(const Labels& labels, const std::string& problem) {
  const absl::Status status = labels.view().ValidateLabeled();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), problem)) << status;
}

TEST(LabelKindTest, NamesReadBack) {
  for (const LabelKind kind :
       {LabelKind::kClasses, LabelKind::kMultiLabel, LabelKind::kTargets}) {
    EXPECT_EQ(*ParseLabelKind(Name(kind)), kind);
  }
  EXPECT_EQ(Name(LabelKind::kMultiLabel), "multi_label");
  for (const char* name : {"", "Classes", "multi-label", "target"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseLabelKind(name).status()));
  }
}

TEST(MultiLabelRowBytesTest, HasRoomForTheBitThatSaysLabeled) {
  EXPECT_EQ(MultiLabelRowBytes(1), 1);
  EXPECT_EQ(MultiLabelRowBytes(7), 1);
  EXPECT_EQ(MultiLabelRowBytes(8), 2);
  EXPECT_EQ(MultiLabelRowBytes(15), 2);
  EXPECT_EQ(MultiLabelRowBytes(16), 3);
  EXPECT_EQ(MultiLabelRowBytes(121), 16);
}

TEST(MultiLabelRowBytesTest, PartialRowsHaveABitMoreForEachLabel) {
  EXPECT_EQ(MultiLabelRowBytes(1, true), 2);
  EXPECT_EQ(MultiLabelRowBytes(7, true), 2);
  EXPECT_EQ(MultiLabelRowBytes(8, true), 3);
  EXPECT_EQ(MultiLabelRowBytes(9, true), 4);
}

TEST(PartialLabelsTest, TellWhichLabelsAreKnown) {
  // Of 9 labels, node 0 has 0 and 8 and knows all but 1; node 1 is unlabeled;
  // node 2 knows the last one alone, which it lacks.
  const Labels labels =
      Labels::MultiLabel({1, 3, 0xFD, 1, 0, 0, 0, 0, 0, 2, 0, 1}, 3, 9, true);
  EXPECT_TRUE(labels.IsLabeled(0));
  EXPECT_FALSE(labels.IsLabeled(1));
  EXPECT_TRUE(labels.IsLabeled(2));
  const Labels gathered = labels.Gather({2, 0});
  const LabelsView view = gathered.view();
  EXPECT_TRUE(view.ValidateLabeled().ok()) << view.ValidateLabeled();
  EXPECT_EQ(view.NumKnown(), 1 + 8);
  EXPECT_FALSE(view.IsKnown(0, 0));
  EXPECT_TRUE(view.IsKnown(0, 8));
  EXPECT_FALSE(view.IsKnown(1, 1));
  EXPECT_TRUE(view.IsKnown(1, 2));
  EXPECT_TRUE(HasBit(view.BitRow(1), 8));
}

TEST(PartialLabelsTest, OthersKnowAll) {
  const Labels labels = Labels::MultiLabel({0b1000, 0b1101}, 2, 3);
  EXPECT_EQ(labels.view().NumKnown(), 6);
  EXPECT_TRUE(labels.view().IsKnown(0, 1));
}

TEST(HasBitTest, CountsFromTheLeastSignificantOne) {
  const uint8_t row[] = {0b00000010, 0b10000001};
  EXPECT_FALSE(HasBit(row, 0));
  EXPECT_TRUE(HasBit(row, 1));
  EXPECT_TRUE(HasBit(row, 8));
  EXPECT_FALSE(HasBit(row, 9));
  EXPECT_TRUE(HasBit(row, 15));
}

TEST(LabelsViewTest, RowsOfEachKindAreThoseOfTheWhole) {
  const Labels classes = Labels::Classes({3, 1, 4, 1}, 5);
  EXPECT_THAT(classes.view().Rows(1, 2).classes, ElementsAre(1, 4));
  EXPECT_EQ(classes.view().Rows(1, 2).num_rows, 2);
  EXPECT_THAT(classes.view().Rows(4, 0).classes, IsEmpty());
  // Rows of 9 labels have two bytes.
  const Labels bits = Labels::MultiLabel({1, 2, 3, 2, 5, 2}, 3, 9);
  EXPECT_THAT(bits.view().Rows(1, 2).bits, ElementsAre(3, 2, 5, 2));
  EXPECT_EQ(*bits.view().Rows(2, 1).BitRow(0), 5);
  const Labels targets = Labels::Targets({1, 2, 3, 4, 5, 6}, 3, 2);
  EXPECT_THAT(targets.view().Rows(2, 1).targets, ElementsAre(5, 6));
}

TEST(LabelsTest, ClassesBelowZeroAreUnlabeled) {
  const Labels labels = Labels::Classes({2, -1, 0}, 3);
  EXPECT_EQ(labels.kind(), LabelKind::kClasses);
  EXPECT_EQ(labels.num_nodes(), 3);
  EXPECT_EQ(labels.width(), 3);
  EXPECT_TRUE(labels.IsLabeled(0));
  EXPECT_FALSE(labels.IsLabeled(1));
  EXPECT_TRUE(labels.IsLabeled(2));
}

TEST(LabelsTest, NoneOfTheLabelsIsNotUnlabeled) {
  // Width 8: the bit that says labeled is the first of the second byte.
  const Labels labels = Labels::MultiLabel({0xFF, 1, 0, 0, 0, 1}, 3, 8);
  EXPECT_TRUE(labels.IsLabeled(0));
  EXPECT_FALSE(labels.IsLabeled(1));
  EXPECT_TRUE(labels.IsLabeled(2));
}

TEST(LabelsTest, TargetsOfNaNAreUnlabeled) {
  const Labels labels = Labels::Targets({0, 1, kNaN, kNaN}, 2, 2);
  EXPECT_TRUE(labels.IsLabeled(0));
  EXPECT_FALSE(labels.IsLabeled(1));
}

TEST(LabelsTest, WhereThereAreNoneNoneAreGathered) {
  const Labels none = Labels().Gather({5, 7});
  EXPECT_EQ(none.view().num_rows, 2);
  EXPECT_EQ(none.view().width, 0);
  EXPECT_TRUE(none.view().classes.empty());
}

TEST(LabelsTest, GathersRowsInTheOrderAsked) {
  const Labels classes = Labels::Classes({5, 6, 7}, 8).Gather({2, 0, 2});
  EXPECT_THAT(classes.view().classes, ElementsAre(7, 5, 7));
  EXPECT_EQ(classes.width(), 8);

  const Labels bits =
      Labels::MultiLabel({1, 2, 3, 4, 5, 6}, 3, 12).Gather({2, 1});
  EXPECT_THAT(bits.view().bits, ElementsAre(5, 6, 3, 4));
  EXPECT_EQ(bits.num_nodes(), 2);
  EXPECT_EQ(bits.kind(), LabelKind::kMultiLabel);

  const Labels targets =
      Labels::Targets({1, 2, 3, 4, 5, 6}, 2, 3).Gather({1, 1});
  EXPECT_THAT(targets.view().targets, ElementsAre(4, 5, 6, 4, 5, 6));
  EXPECT_EQ(targets.view().TargetRow(1)[2], 6);

  EXPECT_THAT(Labels::Classes({1}, 2).Gather({}).view().classes, IsEmpty());
}

TEST(ValidateLabeledTest, LabeledRowsAreValid) {
  EXPECT_TRUE(Labels::Classes({0, 2}, 3).view().ValidateLabeled().ok());
  for (const int64_t width : {1, 6, 7}) {
    const auto bit = static_cast<uint8_t>(1 << width);
    const auto all = static_cast<uint8_t>(2 * bit - 1);
    EXPECT_TRUE(
        Labels::MultiLabel({bit, all}, 2, width).view().ValidateLabeled().ok())
        << width;
  }
  EXPECT_TRUE(
      Labels::MultiLabel({0xFF, 1}, 1, 8).view().ValidateLabeled().ok());
  EXPECT_TRUE(Labels::Targets({-1, 1e30f}, 1, 2).view().ValidateLabeled().ok());
}

TEST(ValidateLabeledTest, RefusesWhatIsNoLabel) {
  ExpectRefused(Labels::Classes({0, 3}, 3), "label 3 is not one of 3 classes");
  ExpectRefused(Labels::Classes({-1}, 3), "label -1");
  ExpectRefused(Labels::MultiLabel({4, 0}, 2, 2), "row 1 is not the labels");
  ExpectRefused(Labels::MultiLabel({3}, 1, 2), "row 0");
  ExpectRefused(Labels::MultiLabel({8 | 4}, 1, 2), "bit 2 is not its last");
  ExpectRefused(Labels::MultiLabel({0xFF, 0}, 1, 8), "row 0");
  for (const std::vector<uint8_t>& row : std::vector<std::vector<uint8_t>>{
           {0b100, 0}, {0b101, 0b10}, {0b100, 0b101}}) {
    // No label is known; one is there that is not; there is no third one.
    ExpectRefused(Labels::MultiLabel(row, 1, 2, true), "has no known label");
  }
  ExpectRefused(Labels::Targets({1, 2, kNaN, kNaN}, 2, 2),
                "target 0 of row 1 is nan");
  ExpectRefused(
      Labels::Targets({1, std::numeric_limits<float>::infinity()}, 1, 2),
      "target 1 of row 0 is inf");
}

TEST(ValidateLabeledTest, RefusesSizesThatDoNotFit) {
  LabelsView view = Labels::Classes({0, 1}, 2).view();
  view.classes = {};
  EXPECT_TRUE(absl::IsInvalidArgument(view.ValidateLabeled()));
  ExpectRefused(Labels::MultiLabel({8, 8}, 1, 3), "2 values for 1 rows of 1");
  ExpectRefused(Labels::Targets({8, 8}, 1, 3), "2 values for 1 rows of 3");
}

}  // namespace
}  // namespace hearth::store
