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

/// Options of `hearth train`, `prepare`, `explain` and `job resume`, as
/// spec.proto describes them: the same as flags, in job files and as they are
/// shown.

namespace hearth::cli {

/// All options of a train job, in the order of the proto.
const std::vector<Flag>& TrainFlags();

/// Names of TrainFlags().
std::vector<std::string> TrainOptionNames();

/// The options of a command line and of a job file together. The command line
/// wins, also where one of its flags sets several options of the file.
OptionValues MergeOptions(OptionValues typed, OptionValues from_file);

/// Sets `values`, options of `table` with its flags `flags`, in `spec`, a
/// message of the table's type. Errors as TrainJobFromOptions.
absl::Status SetOptions(const options::OptionTable& table,
                        const std::vector<Flag>& flags,
                        const OptionValues& values,
                        google::protobuf::Message& spec);

/// The job with the options `values`. INVALID_ARGUMENT names the option and the
/// values that it may have. Other fields stay unset, and the daemon fills them
/// in, except choices (strategy, model, optimizer), which are always made.
absl::StatusOr<v1::TrainJobSpec> TrainJobFromOptions(
    const OptionValues& values);

/// Options that make `spec`, as pairs of name and value.
std::vector<std::pair<std::string, std::string>> OptionsOfTrainJob(
    const v1::TrainJobSpec& spec);
std::vector<std::pair<std::string, std::string>> OptionsOfPrepareJob(
    const v1::PrepareSpec& spec);
std::vector<std::pair<std::string, std::string>> OptionsOfFeedJob(
    const v1::FeedSpec& spec);

/// `text` with flags in place of names of fields ("train.data.batch_size",
/// "learning_rate"; not of names without dots and underscores). A flag among
/// `values` is named as it was typed.
std::string NameFlags(absl::string_view text, const OptionValues& values);

/// Options of `hearth job resume`, for jobs of all kinds: the options that
/// change no result.
const std::vector<Flag>& ResumeFlags();

/// Sets `values`, options of ResumeFlags(), in a job's spec. INVALID_ARGUMENT
/// for an option that jobs of its kind do not have, and for bad values.
absl::Status ChangeOptions(const OptionValues& values, v1::JobSpec& spec);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_JOB_OPTIONS_H_
