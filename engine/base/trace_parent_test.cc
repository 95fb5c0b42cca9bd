#include "engine/base/trace_parent.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent =
    std::string("00-") + kTrace + "-00f067aa0ba902b7-01";

TEST(TraceParentTest, TellsItsTrace) {
  EXPECT_EQ(TraceIdOf(kParent), kTrace);
  // Fields that a later version adds are not looked at.
  EXPECT_EQ(TraceIdOf("01" + kParent.substr(2) + "-more"), kTrace);
}

TEST(TraceParentTest, NothingElseHasATrace) {
  for (const std::string& text :
       {std::string(), std::string(kTrace), kParent.substr(0, 54),
        kParent + "-more", "01" + kParent.substr(2) + "more",
        "ff" + kParent.substr(2), "00_" + kParent.substr(3),
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01" +
            std::string(),
        "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01",
        "00-" + std::string(kTrace) + "-" + std::string(16, '0') + "-01",
        kParent.substr(0, 53) + "\nx"}) {
    EXPECT_EQ(TraceIdOf(text), "") << text;
  }
}

TEST(TraceParentTest, NewOnesDiffer) {
  const std::string one = NewTraceParent();
  const std::string other = NewTraceParent();
  EXPECT_EQ(TraceIdOf(one), one.substr(3, 32));
  EXPECT_NE(TraceIdOf(one), TraceIdOf(other));
}

}  // namespace
}  // namespace hearth
