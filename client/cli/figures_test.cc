#include "client/cli/figures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth::cli {
namespace {

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

}  // namespace
}  // namespace hearth::cli
