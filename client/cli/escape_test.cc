#include "client/cli/escape.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hearth::cli
