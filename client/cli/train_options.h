#ifndef HEARTH_CLIENT_CLI_TRAIN_OPTIONS_H_
#define HEARTH_CLIENT_CLI_TRAIN_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/option_values.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

/// An option of `hearth train`, the same as a flag and in a job file.
struct TrainOption {
  const char* name;
  const char* help;
};

/// All of them, in the order of the help text.
const std::vector<TrainOption>& TrainOptions();

/// Their names.
std::vector<std::string> TrainOptionNames();

/// The job that `values` ask for. INVALID_ARGUMENT names the option and what
/// it may be. What is not given stays unset, for the daemon to fill in; only
/// strategy (memory), model (sage) and optimizer (adam) are always set.
absl::StatusOr<v1::TrainJobSpec> TrainJobFromOptions(
    const OptionValues& values);

/// The options that give `spec`, as (name, value).
std::vector<std::pair<std::string, std::string>> OptionsOfTrainJob(
    const v1::TrainJobSpec& spec);
std::vector<std::pair<std::string, std::string>> OptionsOfPrepareJob(
    const v1::PrepareSpec& spec);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_TRAIN_OPTIONS_H_
