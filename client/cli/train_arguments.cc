#include "client/cli/train_arguments.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/train_options.h"
#include "client/cli/yaml_options.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {

std::function<void()> AddTrainFlags(CLI::App& command,
                                    TrainArguments& arguments) {
  command.add_option("-f,--file", arguments.file,
                     "YAML file with any of these options; flags win");
  std::map<std::string, CLI::Option*> options;
  for (const Flag& flag : TrainFlags()) {
    // A script may append to its usual options.
    options[flag.name] =
        command
            .add_option(absl::StrCat("--", flag.name),
                        arguments.flags[flag.name], flag.HelpWithDefault())
            ->type_name(flag.ValueName())
            ->group(flag.Heading())
            ->take_last();
  }
  return [&arguments, options] {
    for (const auto& [name, option] : options) {
      if (option->count() == 0) continue;
      arguments.values[name] = {arguments.flags[name],
                                absl::StrCat("--", name)};
    }
  };
}

absl::StatusOr<OptionValues> ReadTrainArguments(
    const TrainArguments& arguments, const std::vector<std::string>& more) {
  if (arguments.file.empty()) return arguments.values;
  std::vector<std::string> known = TrainOptionNames();
  known.insert(known.end(), more.begin(), more.end());
  HEARTH_ASSIGN_OR_RETURN(OptionValues from_file,
                          ReadYamlOptions(arguments.file, known));
  return MergeOptions(arguments.values, std::move(from_file));
}

absl::Status WithFlags(const absl::Status& status, const OptionValues& values) {
  absl::Status named(status.code(), NameFlags(status.message(), values));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

}  // namespace hearth::cli
