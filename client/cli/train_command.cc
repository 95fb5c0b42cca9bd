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

// What is done with the job that the options tell of.
enum class Purpose { kTrain, kPrepare, kExplain };

v1::JobSpec JobFor(Purpose purpose, const v1::TrainJobSpec& train) {
  v1::JobSpec spec;
  switch (purpose) {
    case Purpose::kTrain:
      *spec.mutable_train() = train;
      break;
    case Purpose::kPrepare:
      *spec.mutable_prepare()->mutable_data() = train.data();
      *spec.mutable_prepare()->mutable_pipeline() = train.pipeline();
      spec.mutable_prepare()->set_training_only(train.trains(0).has_none());
      break;
    case Purpose::kExplain:
      *spec.mutable_explain()->mutable_train() = train;
      break;
  }
  return spec;
}

absl::StatusOr<int> Run(Purpose purpose, const TrainArguments& arguments,
                        Session& session) {
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
  HEARTH_ASSIGN_OR_RETURN(const v1::TrainJobSpec train,
                          TrainJobFromOptions(values));
  return RunJob(session, JobFor(purpose, train), arguments.detach);
}

void AddCommand(CLI::App& app, const char* name, const char* help,
                Purpose purpose, Action* chosen) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<TrainArguments>();
  std::map<std::string, CLI::Option*> options;
  for (const TrainOption& option : TrainOptions()) {
    // A script may append to its usual options.
    options[option.name] =
        command
            ->add_option(absl::StrCat("--", option.name),
                         arguments->flags[option.name], option.help)
            ->take_last();
  }
  command->add_option("-f,--file", arguments->file,
                      "YAML file with any of these options; flags win");
  command->add_flag("--detach", arguments->detach,
                    "Print the job's id and do not wait for its end");
  command->callback([=] {
    for (const auto& [name, option] : options) {
      if (option->count() == 0) continue;
      arguments->values[name] = {arguments->flags[name],
                                 absl::StrCat("--", name)};
    }
    *chosen = [=](Session& session) {
      return Run(purpose, *arguments, session);
    };
  });
}

}  // namespace

void AddTrainCommands(CLI::App& app, Action* chosen) {
  AddCommand(app, "train", "Train a model on a dataset", Purpose::kTrain,
             chosen);
  AddCommand(app, "prepare",
             "Make the plan that training with the same options would make",
             Purpose::kPrepare, chosen);
  AddCommand(app, "explain",
             "Say what training with the same options would read, take and "
             "hold, without training",
             Purpose::kExplain, chosen);
}

}  // namespace hearth::cli
