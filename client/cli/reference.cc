#include "client/cli/reference.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/options/job_options.h"
#include "client/cli/options/option_flags.h"
#include "client/cli/options/sweep_options.h"
#include "engine/base/version.h"
#include "proto/options/command_line.h"
#include "proto/options/option_table.h"

namespace hearth::cli {

namespace {

constexpr char kHead[] =
    R"(# Options of `hearth train`, `prepare` and `explain`

Each is a flag (`--epochs 7`) and a key of a job file (`epochs: 7`, with `-f`).
The field is what programs set in a `TrainJobSpec`
(`proto/hearth/v1/spec.proto`). Sizes are bytes, or have a unit: `512MiB`, `4GB`.

Options with a * change no result: `hearth job resume` takes them, too, for the
job to go on with.

<!-- `bazel run //client/cli:write_options_page > client/guide/options.md` writes
this page from the descriptions in proto/hearth/v1/spec.proto. -->
)";

// `text` as a cell of a table, which a bar would end.
std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}});
}

std::string Fields(const Flag& flag) {
  if (flag.choice != nullptr) {
    return absl::StrCat("`", flag.choice->FieldPath(), "`");
  }
  return absl::StrJoin(
      flag.options, ", ", [](std::string* out, const options::Option* option) {
        absl::StrAppend(out, "`", options::ToString(option->path), "`");
      });
}

bool ChangesNoResult(const Flag& flag) {
  return !flag.options.empty() &&
         flag.options.front()->description.changes_no_result();
}

void AddRow(const Flag& flag, std::string* page) {
  absl::StrAppend(page, "| `", flag.name, "`",
                  ChangesNoResult(flag) ? " \\*" : "", " | ", Cell(flag.Help()),
                  " | ", Cell(flag.Values()), " | ",
                  flag.required() ? "required" : Cell(flag.Default()), " | ",
                  Fields(flag), " |\n");
}

// Adds a table of the alternatives of a choice and their meanings.
void AddAlternatives(const options::Choice& choice, std::string* page) {
  absl::StrAppend(page, "\n| `", choice.description.flag(),
                  "` | |\n|---|---|\n");
  for (int i = 0; i < choice.oneof->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *choice.oneof->field(i);
    absl::StrAppend(page, "| `", field.name(), "` | ",
                    Cell(options::DescriptionOf(field).help()), " |\n");
  }
}

// Adds a table of flags for each heading.
void AddTables(const std::vector<Flag>& flags, std::string* page) {
  std::vector<std::string> groups;
  for (const Flag& flag : flags) {
    const std::string group = flag.Group();
    if (std::find(groups.begin(), groups.end(), group) != groups.end())
      continue;
    groups.push_back(group);
  }
  for (const std::string& group : groups) {
    absl::StrAppend(page, "\n## ", group,
                    "\n\n| option | what it is | values | default | field |\n"
                    "|---|---|---|---|---|\n");
    std::vector<const options::Choice*> choices;
    for (const Flag& flag : flags) {
      if (flag.Group() != group) continue;
      AddRow(flag, page);
      if (flag.choice != nullptr) choices.push_back(flag.choice);
    }
    for (const options::Choice* choice : choices) {
      AddAlternatives(*choice, page);
    }
  }
}

constexpr char kSweepHead[] =
    R"(
# Options of `hearth sweep submit`

Besides all of `hearth train`, and `--space`. The field is what programs set in a
`SweepSpec` (`proto/hearth/v1/sweeps.proto`).
)";

}  // namespace

std::string OptionsPage() {
  std::string page = kHead;
  AddTables(TrainFlags(), &page);
  page += kSweepHead;
  AddTables(SearchFlags(), &page);
  return page;
}

namespace {

std::string Source() { return absl::StrCat("Hearth ", kVersion); }

// The manual page of `hearth` itself.
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
