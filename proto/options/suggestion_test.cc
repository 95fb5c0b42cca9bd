#include "proto/options/suggestion.h"

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

  // With exceptions, as the parser reports.
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

}  // namespace
}  // namespace hearth::options
