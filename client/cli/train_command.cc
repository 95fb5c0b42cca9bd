#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/train_options.h"
#include "client/cli/yaml_options.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct TrainArguments {
  // Written by the parser; the nodes of a map stay where they are.
  std::map<std::string, std::string> flags;
  // What was given on the command line.
  OptionValues values;
  std::string file;
  bool detach = false;
};

absl::StatusOr<int> Train(const TrainArguments& arguments, Session& session) {
  OptionValues values = arguments.values;
  if (!arguments.file.empty()) {
    HEARTH_ASSIGN_OR_RETURN(
        OptionValues from_file,
        ReadYamlOptions(arguments.file, TrainOptionNames()));
    values.merge(from_file);  // Flags win.
    // A seed on the command line is not to lose against seeds of the file.
    if (arguments.values.contains("seed")) {
      for (const char* seed : {"data-seed", "model-seed"}) {
        if (!arguments.values.contains(seed)) values.erase(seed);
      }
    }
  }
  v1::JobSpec spec;
  HEARTH_ASSIGN_OR_RETURN(*spec.mutable_train(), TrainJobFromOptions(values));
  return RunJob(session, spec, arguments.detach);
}

}  // namespace

void AddTrainCommand(CLI::App& app, Action* chosen) {
  CLI::App* train = app.add_subcommand("train", "Train a model on a dataset");
  const auto arguments = std::make_shared<TrainArguments>();
  std::map<std::string, CLI::Option*> options;
  for (const TrainOption& option : TrainOptions()) {
    // A script may append to its usual options.
    options[option.name] =
        train
            ->add_option(absl::StrCat("--", option.name),
                         arguments->flags[option.name], option.help)
            ->take_last();
  }
  train->add_option("-f,--file", arguments->file,
                    "YAML file with any of these options; flags win");
  train->add_flag("--detach", arguments->detach,
                  "Print the job's id and do not wait for its end");
  train->callback([=] {
    for (const auto& [name, option] : options) {
      if (option->count() == 0) continue;
      arguments->values[name] = {arguments->flags[name],
                                 absl::StrCat("--", name)};
    }
    *chosen = [=](Session& session) { return Train(*arguments, session); };
  });
}

}  // namespace hearth::cli
