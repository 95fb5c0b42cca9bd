#include "client/cli/man_pages.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command_tree.h"
#include "engine/base/version.h"
#include "proto/options/man_page.h"

namespace hearth::cli {
namespace {

std::string Source() { return absl::StrCat("Hearth ", kVersion); }

// The page of the program itself.
std::string Overview(const CLI::App& app,
                     const std::vector<const CLI::App*>& commands) {
  options::ManPageHead head = {.name = "hearth",
                               .command = "hearth",
                               .source = Source(),
                               .names_commands = true,
                               .see_also = {"hearthd(8)"}};
  head.paragraphs = {
      "Each command has a page of its own. The options are taken before and "
      "after the command.",
      "It exits with 0 when all is done; 1 when a job failed or was cancelled, "
      "or the daemon refused; 2 when the command line makes no sense; 3 when "
      "the daemon cannot be reached; 130 after Ctrl-C."};
  for (const CLI::App* command : commands) {
    head.see_also.push_back(
        absl::StrCat("hearth-", command->get_name(), "(1)"));
  }
  return options::ManPage(app, head);
}

}  // namespace

std::map<std::string, std::string> ManPages() {
  const CommandTree tree;
  const std::vector<const CLI::App*> commands = tree.app.get_subcommands(
      [](const CLI::App* command) { return !command->get_group().empty(); });
  std::map<std::string, std::string> pages;
  pages["hearth.1"] = Overview(tree.app, commands);
  for (const CLI::App* command : commands) {
    const std::string name = absl::StrCat("hearth-", command->get_name());
    pages[absl::StrCat(name, ".1")] = options::ManPage(
        *command, {.name = name,
                   .command = absl::StrCat("hearth ", command->get_name()),
                   .source = Source(),
                   .see_also = {"hearth(1)", "hearthd(8)"}});
  }
  return pages;
}

}  // namespace hearth::cli
