#include "proto/options/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hearth::options {

namespace {

TEST(Nearest, ForgivesFewMistakes) {
  const std::vector<std::string> known = {"memory", "gnndrive", "io-depth",
                                          "epochs", "gat",      "gatv2"};
  EXPECT_EQ(Nearest("gnndrve", known), "gnndrive");
  EXPECT_EQ(Nearest("gndnrive", known), "gnndrive");
  EXPECT_EQ(Nearest("IO_Depth", known), "io-depth");
  EXPECT_EQ(Nearest("epoch", known), "epochs");
  EXPECT_EQ(Nearest("gta", known), "gat");
  EXPECT_EQ(Nearest("mem", known), "memory");
  EXPECT_EQ(Nearest("lion", known), "");
  EXPECT_EQ(Nearest("", known), "");
  EXPECT_EQ(DidYouMean("gnndrve", known), "; did you mean gnndrive?");
  EXPECT_EQ(DidYouMean("lion", known), "");
}

class ParseFaultTest : public testing::Test {
 protected:
  ParseFaultTest() {
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.add_option("--output", text_);
    app_.add_subcommand("train", "")->add_option("--dataset", text_);
    CLI::App* dataset = app_.add_subcommand("dataset", "");
    dataset->require_subcommand(1);
    dataset->add_subcommand("import", "")->add_option("NAME", text_);
  }

  // The fault of a command line; the parser reports by exceptions.
  std::string FaultOf(const std::vector<std::string>& arguments) {
    try {
      app_.parse(
          std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ParseError& error) {
      return ParseFault(app_, error, arguments);
    }
    return "none";
  }

  CLI::App app_;
  std::string text_;
};

TEST_F(ParseFaultTest, NamesTheUnknownOptionAndWhatWasMeant) {
  EXPECT_EQ(FaultOf({"train", "--datset", "up1"}),
            "unknown option --datset; did you mean --dataset?");
  EXPECT_EQ(FaultOf({"train", "--datset=up1", "--dataset", "a"}),
            "unknown option --datset; did you mean --dataset?");
  EXPECT_EQ(FaultOf({"train", "--dataset", "a", "--zzz", "-y"}),
            "unknown option --zzz\nunknown option -y");
  EXPECT_EQ(FaultOf({"dataset", "import", "n", "--ouput", "json"}),
            "unknown option --ouput; did you mean --output?");
}

TEST_F(ParseFaultTest, NamesTheUnknownCommand) {
  EXPECT_EQ(FaultOf({"trian"}), "unknown command trian; did you mean train?");
  EXPECT_EQ(FaultOf({"trian", "--dataset", "a"}),
            "unknown command trian; did you mean train?");
  EXPECT_EQ(FaultOf({"dataset", "imprt", "n", "--x"}),
            "unknown command imprt; did you mean import?");
  EXPECT_EQ(FaultOf({"foo"}), "unknown command foo");
  EXPECT_EQ(FaultOf({}), "A subcommand is required");
}

TEST_F(ParseFaultTest, NamesWhatIsTooMany) {
  EXPECT_EQ(FaultOf({"train", "up1", "--dataset", "a"}),
            "unexpected argument \"up1\"");
  EXPECT_EQ(FaultOf({"dataset", "import", "a", "b"}),
            "unexpected argument \"b\"");
}

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
