#include "proto/options/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::options {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ManPageTest : public testing::Test {
 protected:
  ManPageTest() {
    app_.add_option("-f,--file", text_, ".yaml file with a \\ in it")
        ->type_name("FILE");
    app_.add_option("--kind", text_, "Which kind")
        ->check(CLI::IsMember({"a", "b"}))
        ->default_str("a")
        ->group("More");
    app_.add_option("--secret", text_, "Nobody's")->group("");
    app_.add_flag("--loud", loud_, "Be loud");
    CLI::App* below = app_.add_subcommand("show", "Show one");
    below->add_option("ID", text_, "Which one")->required();
    below->add_subcommand("deep", "Show it all");
  }

  std::string Page() {
    return ManPage(app_, {.name = "thing-do",
                          .section = 1,
                          .command = "thing do",
                          .source = "Thing 1.2",
                          .paragraphs = {"More to say."},
                          .see_also = {"thingd(8)"}});
  }

  CLI::App app_{"Does things"};
  std::string text_;
  bool loud_ = false;
};

TEST_F(ManPageTest, ItTellsWhatTheHelpTells) {
  EXPECT_THAT(
      Page(),
      AllOf(HasSubstr(".TH \"THING\\-DO\" 1 \"\" \"Thing 1.2\" \"Hearth\"\n"),
            HasSubstr("thing\\-do \\- Does things\n"),
            HasSubstr("\\fBthing do\\fR [\\fIOPTIONS\\fR]\n"),
            HasSubstr("Does things.\n.PP\nMore to say.\n"),
            HasSubstr(".SS \"More\"\n.TP\n\\fB\\-\\-kind\\fR \\fIa|b\\fR\n"
                      "Which kind (default a)\n"),
            HasSubstr(".TP\n\\fB\\-\\-loud\\fR\nBe loud\n"),
            HasSubstr(".SS \"thing do show\"\n\\fBthing do show\\fR "
                      "[\\fIOPTIONS\\fR] \\fIID\\fR\n.PP\nShow one.\n.TP\n"
                      "\\fIID\\fR\nWhich one (required)\n"),
            HasSubstr(".SS \"thing do show deep\"\n"),
            HasSubstr(".SH SEE ALSO\n\\fBthingd\\fR(8)\n")));
}

TEST_F(ManPageTest, CommandsWithPagesOfTheirOwnAreNamed) {
  const std::string page =
      ManPage(app_, {.name = "thing", .names_commands = true});
  EXPECT_THAT(page, AllOf(HasSubstr(".TP\n\\fBshow\\fR\nShow one\n"),
                          Not(HasSubstr("Which one"))));
}

TEST_F(ManPageTest, NoTextIsARequest) {
  EXPECT_THAT(Page(), HasSubstr("\\fB\\-f\\fR, \\fB\\-\\-file\\fR "
                                "\\fIFILE\\fR\n\\&.yaml file with a \\e in "));
}

TEST_F(ManPageTest, WhatHelpHidesIsHidden) {
  EXPECT_THAT(Page(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace hearth::options
