#ifndef HEARTH_CLIENT_CLI_OPTIONS_JOB_OPTIONS_H_
#define HEARTH_CLIENT_CLI_OPTIONS_JOB_OPTIONS_H_

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/options/option_flags.h"
#include "client/cli/options/option_values.h"
#include "hearth/v1/spec.pb.h"
#include "proto/options/option_table.h"

/// The options of `hearth train`, `prepare` and `explain`, the same as flags
/// and in a job file: those that spec.proto describes.

namespace hearth::cli {

/// All of them, in the order of the proto.
const std::vector<Flag>& TrainFlags();

/// Their names.
std::vector<std::string> TrainOptionNames();

/// The options of a command line and of a job file together: those of the
/// command line win, also where it has a flag that sets several of the file's.
OptionValues MergeOptions(OptionValues typed, OptionValues from_file);

/// Sets what `values` say of the options of `table`, whose flags are `flags`,
/// in `spec`, a message of its type; errors as TrainJobFromOptions.
absl::Status SetOptions(const options::OptionTable& table,
                        const std::vector<Flag>& flags,
                        const OptionValues& values,
                        google::protobuf::Message& spec);

/// The job that `values` ask for. INVALID_ARGUMENT names the option and what
/// it may be. What is not given stays unset, for the daemon to fill in; only
/// choices (strategy, model, optimizer) are always made.
absl::StatusOr<v1::TrainJobSpec> TrainJobFromOptions(
    const OptionValues& values);

/// The options that give `spec`, as (name, value).
std::vector<std::pair<std::string, std::string>> OptionsOfTrainJob(
    const v1::TrainJobSpec& spec);
std::vector<std::pair<std::string, std::string>> OptionsOfPrepareJob(
    const v1::PrepareSpec& spec);

/// `text` with the flag in place of each field that it names
/// ("train.data.batch_size", "learning_rate"; names of one word, without dots
/// and underscores, are left alone): as it was typed, if it is among `values`.
std::string NameFlags(absl::string_view text, const OptionValues& values);

/// The options of `hearth job resume`: those that spec.proto describes as
/// changing no result.

/// All of them, of jobs of any kind.
const std::vector<Flag>& ResumeFlags();

/// Sets the options that are given, in a job's spec. INVALID_ARGUMENT for one
/// that jobs of its kind do not have, and for values that it may not have.
absl::Status ChangeOptions(const OptionValues& values, v1::JobSpec& spec);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_JOB_OPTIONS_H_
