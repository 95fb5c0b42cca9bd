#include "client/cli/figures.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hearth::cli
