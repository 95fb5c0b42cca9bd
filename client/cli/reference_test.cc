#include "client/cli/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/command_tree.h"

namespace hearth::cli {

namespace {

TEST(OptionsPage, IsTheOneInTheTree) {
  std::ifstream file("client/guide/options.md");
  ASSERT_TRUE(file);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), OptionsPage())
      << "bazel run //client/cli:write_options_page > client/guide/options.md "
         "writes it anew";
}

using ::testing::HasSubstr;

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"-", "\\-"}});
}

// Expects `page` to have each flag of `command` and of its subcommands.
void ExpectTold(const CLI::App& command, const std::string& typed,
                const std::string& page) {
  EXPECT_THAT(page, HasSubstr(Escaped(typed)));
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option*) { return true; })) {
    if (option == command.get_help_ptr()) continue;
    for (const std::string& name : option->get_lnames()) {
      EXPECT_THAT(page, HasSubstr(Escaped(absl::StrCat("--", name))));
    }
  }
  for (const CLI::App* below :
       command.get_subcommands([](const CLI::App*) { return true; })) {
    ExpectTold(*below, absl::StrCat(typed, " ", below->get_name()), page);
  }
}

TEST(ManPagesTest, EachCommandIsToldOfWhole) {
  const CommandTree tree;
  std::map<std::string, std::string> pages = ManPages();
  for (const CLI::App* command :
       tree.app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string& name = command->get_name();
    ExpectTold(*command, absl::StrCat("hearth ", name),
               pages[absl::StrCat("hearth-", name, ".1")]);
    EXPECT_THAT(pages["hearth.1"],
                HasSubstr(absl::StrCat("\\fB", name, "\\fR\n")));
    EXPECT_THAT(pages["hearth.1"],
                HasSubstr(absl::StrCat("\\fBhearth\\-", name, "\\fR(1)")));
  }
}

}  // namespace

}  // namespace hearth::cli
