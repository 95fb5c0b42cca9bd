#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/submission.h"
#include "client/cli/train_arguments.h"
#include "client/cli/train_options.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct Arguments {
  TrainArguments train;
  // `prepare` makes only the partition.
  bool partition_only = false;
  Submission submission;
};

// The command that the options are given to.
enum class Purpose { kTrain, kPrepare, kExplain };

// The width of the model's hidden layers; 0 if there is none, or it is not
// given.
uint32_t HiddenOf(const v1::TrainSpec& spec) {
  const auto* models = v1::TrainSpec::descriptor()->FindOneofByName("model");
  const auto* chosen =
      spec.GetReflection()->GetOneofFieldDescriptor(spec, models);
  if (chosen == nullptr) return 0;
  const google::protobuf::Message& model =
      spec.GetReflection()->GetMessage(spec, chosen);
  const auto* hidden = model.GetDescriptor()->FindFieldByName("hidden");
  return hidden == nullptr ? 0
                           : model.GetReflection()->GetUInt32(model, hidden);
}

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
      spec.mutable_prepare()->set_hidden(HiddenOf(train.trains(0)));
      break;
    case Purpose::kExplain:
      *spec.mutable_explain()->mutable_train() = train;
      break;
  }
  return spec;
}

absl::StatusOr<int> Run(Purpose purpose, const Arguments& arguments,
                        Session& session) {
  HEARTH_ASSIGN_OR_RETURN(OptionValues values,
                          ReadTrainArguments(arguments.train));
  if (arguments.partition_only) {
    values.try_emplace("order", OptionValue{"partition", "--partition"});
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::TrainJobSpec train,
                          TrainJobFromOptions(values));
  const absl::StatusOr<int> exit_code =
      RunJob(session, JobFor(purpose, train, arguments.partition_only),
             arguments.submission);
  if (exit_code.ok()) return exit_code;
  return WithFlags(exit_code.status(), values);
}

void AddCommand(CLI::App& app, const char* name, const char* help,
                Purpose purpose, Action* chosen) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<Arguments>();
  if (purpose == Purpose::kPrepare) {
    command->add_flag("--partition", arguments->partition_only,
                      "Make only the partition of --order partition");
  }
  AddSubmissionFlags(*command, arguments->submission);
  const std::function<void()> take = AddTrainFlags(*command, arguments->train);
  command->callback([=] {
    take();
    *chosen = [=](Session& session) {
      return Run(purpose, *arguments, session);
    };
  });
}

}  // namespace

void AddTrainCommands(CLI::App& app, Action* chosen) {
  AddCommand(app, "train", "Train a model on a dataset", Purpose::kTrain,
             chosen);
  AddCommand(
      app, "prepare",
      "Make the plan of a train job with the same options, without training",
      Purpose::kPrepare, chosen);
  AddCommand(
      app, "explain",
      "Forecast the reads, seconds, memory and disk of a train job with the "
      "same options, without training",
      Purpose::kExplain, chosen);
}

}  // namespace hearth::cli
