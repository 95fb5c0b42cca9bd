#ifndef HEARTH_CLIENT_CLI_RESUME_OPTIONS_H_
#define HEARTH_CLIENT_CLI_RESUME_OPTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "client/cli/option_flags.h"
#include "client/cli/option_values.h"
#include "hearth/v1/spec.pb.h"

/// The options of `hearth job resume`: those that spec.proto describes as
/// changing no result.

namespace hearth::cli {

/// All of them, of jobs of any kind.
const std::vector<Flag>& ResumeFlags();

/// Sets the options that are given, in a job's spec. INVALID_ARGUMENT for one
/// that jobs of its kind do not have, and for values that it may not have.
absl::Status ChangeOptions(const OptionValues& values, v1::JobSpec& spec);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_RESUME_OPTIONS_H_
