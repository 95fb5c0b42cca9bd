#include "client/cli/options_page.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/option_flags.h"
#include "client/cli/sweep_options.h"
#include "client/cli/train_options.h"
#include "proto/options/option_table.h"

namespace hearth::cli {
namespace {

constexpr char kHead[] =
    R"(# Options of `hearth train`, `prepare` and `explain`

Each is a flag (`--epochs 7`) and a key of a job file (`epochs: 7`, with `-f`).
The field is what programs set in a `TrainJobSpec`
([spec.proto](../proto/hearth/v1/spec.proto)). Sizes are bytes, or have a unit:
`512MiB`, `4GB`.

Options with a * change no result: `hearth job resume` takes them, too, for the
job to go on with.

`bazel run //client/cli:write_options_page > client/OPTIONS.md` writes this page
from the descriptions in that file.
)";

// In a cell of a table, a bar would end it.
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

// Adds a table of the meaning of each alternative of a choice.
void AddAlternatives(const options::Choice& choice, std::string* page) {
  absl::StrAppend(page, "\n| `", choice.description.flag(),
                  "` | |\n|---|---|\n");
  for (int i = 0; i < choice.oneof->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *choice.oneof->field(i);
    absl::StrAppend(page, "| `", field.name(), "` | ",
                    Cell(options::DescriptionOf(field).help()), " |\n");
  }
}

// Adds a table for each heading.
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
`SweepSpec` ([sweeps.proto](../proto/hearth/v1/sweeps.proto)).
)";

}  // namespace

std::string OptionsPage() {
  std::string page = kHead;
  AddTables(TrainFlags(), &page);
  page += kSweepHead;
  AddTables(SearchFlags(), &page);
  return page;
}

}  // namespace hearth::cli
