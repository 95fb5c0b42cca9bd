#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/submission.h"
#include "client/cli/train_options.h"
#include "client/cli/yaml_options.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct TrainArguments {
  // Written by the parser; the nodes of a map stay where they are.
  std::map<std::string, std::string> flags;
  // The options given on the command line.
  OptionValues values;
  std::string file;
  // Of `prepare`: only the partition is made.
  bool partition_only = false;
  Submission submission;
};

// The command that the options are given to.
enum class Purpose { kTrain, kPrepare, kExplain };

v1::JobSpec JobFor(Purpose purpose, const v1::TrainJobSpec& train,
                   bool partition_only) {
  v1::JobSpec spec;
  switch (purpose) {
    case Purpose::kTrain:
      *spec.mutable_train() = train;
      break;
    case Purpose::kPrepare:
      *spec.mutable_prepare()->mutable_data() = train.data();
      *spec.mutable_prepare()->mutable_pipeline() = train.pipeline();
      spec.mutable_prepare()->set_training_only(train.trains(0).has_none());
      spec.mutable_prepare()->set_partition_only(partition_only);
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
    values = MergeOptions(std::move(values), std::move(from_file));
  }
  if (arguments.partition_only) {
    values.try_emplace("order", OptionValue{"partition", "--partition"});
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::TrainJobSpec train,
                          TrainJobFromOptions(values));
  const absl::StatusOr<int> exit_code =
      RunJob(session, JobFor(purpose, train, arguments.partition_only),
             arguments.submission);
  if (exit_code.ok()) return exit_code;
  // The daemon names fields.
  absl::Status status(exit_code.status().code(),
                      NameFlags(exit_code.status().message(), values));
  exit_code.status().ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) {
        status.SetPayload(type, payload);
      });
  return status;
}

// "Strategy gnndrive".
std::string Heading(std::string group) {
  group[0] = absl::ascii_toupper(static_cast<unsigned char>(group[0]));
  return group;
}

std::string HelpOf(const Flag& flag) {
  if (flag.required()) return absl::StrCat(flag.Help(), " (required)");
  const std::string value = flag.Default();
  return value.empty() ? flag.Help()
                       : absl::StrCat(flag.Help(), " (default ", value, ")");
}

void AddCommand(CLI::App& app, const char* name, const char* help,
                Purpose purpose, Action* chosen) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("-f,--file", arguments->file,
                      "YAML file with any of these options; flags win");
  if (purpose == Purpose::kPrepare) {
    command->add_flag("--partition", arguments->partition_only,
                      "Make only the partition of --order partition");
  }
  AddSubmissionFlags(*command, arguments->submission);
  std::map<std::string, CLI::Option*> options;
  for (const Flag& flag : TrainFlags()) {
    // A script may append to its usual options.
    options[flag.name] =
        command
            ->add_option(absl::StrCat("--", flag.name),
                         arguments->flags[flag.name], HelpOf(flag))
            ->type_name(flag.ValueName())
            ->group(Heading(flag.Group()))
            ->take_last();
  }
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
