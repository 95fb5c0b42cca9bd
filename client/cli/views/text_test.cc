#include "client/cli/views/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

namespace {

TEST(EscapeControl, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(EscapeControl("node_feat.npy: 12 ≠ 13 — ünï 漢字 🙂"),
            "node_feat.npy: 12 ≠ 13 — ünï 漢字 🙂");
  EXPECT_EQ(EscapeControl(""), "");
}

TEST(EscapeControl, EscapesTerminalSequences) {
  EXPECT_EQ(EscapeControl("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
  EXPECT_EQ(EscapeControl("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(EscapeControl(absl::string_view("a\0b", 3)), "a\\x00b");
}

TEST(EscapeControl, EscapesC1Controls) {
  EXPECT_EQ(EscapeControl("\xc2\x9b"
                          "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(EscapeControl("\xc2\xa0"), "\xc2\xa0");  // No-break space.
}

TEST(EscapeControl, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(EscapeControl("\xff"), "\\xff");
  EXPECT_EQ(EscapeControl("\xc3"), "\\xc3");  // Cut.
  EXPECT_EQ(EscapeControl("\xe2\x82"
                          "a"),
            "\\xe2\\x82"
            "a");                                               // Cut.
  EXPECT_EQ(EscapeControl("\xc0\xaf"), "\\xc0\\xaf");           // Overlong.
  EXPECT_EQ(EscapeControl("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // Surrogate.
  EXPECT_EQ(EscapeControl("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(111059956), "111,059,956");
}

TEST(FormatDuration, ShowsHoursOnlyWhereThereAreAny) {
  EXPECT_EQ(FormatDuration(0), "0:00");
  EXPECT_EQ(FormatDuration(59.6), "1:00");
  EXPECT_EQ(FormatDuration(725), "12:05");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
}

TEST(FormatDouble, IsShort) {
  EXPECT_EQ(FormatDouble(0.003), "0.003");
  EXPECT_EQ(FormatDouble(0), "0");
}

TEST(Seconds, IncludesTheFraction) {
  google::protobuf::Timestamp time;
  time.set_seconds(10);
  time.set_nanos(500000000);
  EXPECT_EQ(Seconds(time), 10.5);
}

TEST(FormatTimestamp, NoTimeIsADash) {
  EXPECT_EQ(FormatTimestamp(google::protobuf::Timestamp()), "-");
}

TEST(Counted, KnowsOneFromMany) {
  EXPECT_EQ(Counted(0, "epoch"), "0 epochs");
  EXPECT_EQ(Counted(1, "epoch"), "1 epoch");
  EXPECT_EQ(Counted(1200, "batch", "batches"), "1,200 batches");
}

TEST(FormatLoss, HasFewDigitsOfAnySize) {
  EXPECT_EQ(FormatLoss(0), "0.0000");
  EXPECT_EQ(FormatLoss(0.69314), "0.6931");
  EXPECT_EQ(FormatLoss(-1234.5), "-1234.5000");
  EXPECT_EQ(FormatLoss(47142857142857142784.0), "4.714e+19");
  EXPECT_EQ(FormatLoss(0.000012345), "1.234e-05");
  EXPECT_EQ(FormatLoss(std::nan("")), "nan");
}

std::string Print(const Table& table) {
  std::ostringstream out;
  table.Print(out);
  return out.str();
}

TEST(Table, AlignsColumns) {
  Table table({{"name"}, {"nodes", Table::Align::kRight}, {"state"}});
  table.AddRow({"cora", "2,708", "ok"});
  table.AddRow({"wordnet", "117,659", ""});
  EXPECT_EQ(Print(table),
            "name       nodes  state\n"
            "cora       2,708  ok\n"
            "wordnet  117,659\n");
}

TEST(Table, HasNoHeadWithoutTitles) {
  Table table({{""}, {""}});
  table.AddRow({"pid", "42"});
  EXPECT_EQ(Print(table), "pid  42\n");
}

TEST(Table, HeadStandsAloneWithoutRows) {
  EXPECT_EQ(Print(Table({{"name"}, {"nodes"}})), "name  nodes\n");
}

TEST(Table, EscapesCells) {
  Table table({{""}});
  table.AddRow({"a\x1b[2Jb\n"});
  EXPECT_EQ(Print(table), "a\\x1b[2Jb\\n\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{""}, {""}});
  table.AddRow({"zürich", "1"});
  table.AddRow({"berlin", "2"});
  EXPECT_EQ(Print(table), "zürich  1\nberlin  2\n");
}

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(EnumWords, AreTheValuesNames) {
  EXPECT_THAT(EnumWords<v1::LabelKind>(),
              UnorderedElementsAre(Pair("auto", v1::LABEL_KIND_UNSPECIFIED),
                                   Pair("classes", v1::CLASSES),
                                   Pair("multi-label", v1::MULTI_LABEL),
                                   Pair("targets", v1::TARGETS)));
  EXPECT_EQ(EnumWords<v1::Format>().at("edge-list"), v1::EDGE_LIST);
}

TEST(EnumWord, IsTheNameOrTheNumber) {
  EXPECT_EQ(EnumWord(v1::EDGE_LIST), "edge-list");
  EXPECT_EQ(EnumWord(v1::FORMAT_UNSPECIFIED), "auto");
  EXPECT_EQ(EnumWord(static_cast<v1::Format>(99)), "99");
}

TEST(LabelWords, CountWhatTheLabelsAre) {
  EXPECT_EQ(LabelWords(v1::CLASSES, 45), "45 classes");
  EXPECT_EQ(LabelWords(v1::CLASSES, 1), "1 class");
  EXPECT_EQ(LabelWords(v1::MULTI_LABEL, 1203), "1,203 labels");
  EXPECT_EQ(LabelWords(v1::TARGETS, 1), "1 target");
  EXPECT_EQ(LabelWords(v1::TARGETS, 2), "2 targets");
  EXPECT_EQ(LabelWords(v1::CLASSES, 0), "no labels");
}

TEST(MetricWords, AreThoseOfTheField) {
  EXPECT_EQ(MetricWords("accuracy"), "accuracy");
  EXPECT_EQ(MetricWords("micro_f1"), "micro-F1");
  EXPECT_EQ(MetricWords("mse"), "mean squared error");
  EXPECT_EQ(MetricWords("roc_auc"), "ROC-AUC");
  EXPECT_EQ(MetricWords("average_precision"), "average precision");
  EXPECT_EQ(MetricWords("new\x1b"), "new\\x1b");
}

TEST(FormatMetric, ErrorsMayBeSmallOrLarge) {
  EXPECT_EQ(FormatMetric("accuracy", 0.86), "0.860");
  EXPECT_EQ(FormatMetric("micro_f1", 1), "1.000");
  EXPECT_EQ(FormatMetric("mse", 0.0000123456789), "1.23457e-05");
  EXPECT_EQ(FormatMetric("mse", 4521.25), "4521.25");
  EXPECT_EQ(FormatMetric("roc_auc", 0.9876543), "0.988");
  EXPECT_EQ(FormatMetric("average_precision", 1), "1.000");
  EXPECT_EQ(FormatMetric("roc_auc", std::nan("")), "not defined");
}

}  // namespace

}  // namespace hearth::cli
