#ifndef HEARTH_CLIENT_CLI_OPTIONS_SWEEP_OPTIONS_H_
#define HEARTH_CLIENT_CLI_OPTIONS_SWEEP_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/options/option_flags.h"
#include "client/cli/options/option_values.h"
#include "hearth/v1/sweeps.pb.h"

/// Options of `hearth sweep submit`: options of the search, options of `hearth
/// train`, and the space of values to search.

namespace hearth::cli {

/// Beginning of the names of the space's options: "space.lr".
inline constexpr char kSpacePrefix[] = "space.";

/// SweepFlags: flags of sweeps except the space, in the order of the proto.
/// SearchFlags: flags of the search alone; flags that jobs have, too, come
/// last, without the jobs' fields.
const std::vector<Flag>& SweepFlags();
std::vector<Flag> SearchFlags();

/// Adds the value of a `--space`, such as "lr=log:1e-4:1e-1", to `values`.
/// INVALID_ARGUMENT if it has no "=", or `values` has the parameter.
absl::Status AddSpace(const std::string& text, OptionValues& values);

/// The parameter `name` with the values of `value`: "a,b", "a|b" (for values
/// with commas), "int:LOW:HIGH", "uniform:LOW:HIGH" or "log:LOW:HIGH"; for a
/// grid, ranges with ":STEPS". INVALID_ARGUMENT for anything else.
absl::StatusOr<v1::SweepParameter> ParameterFromText(const std::string& name,
                                                     const OptionValue& value);

/// The sweep with the options `values`. Errors as TrainJobFromOptions.
absl::StatusOr<v1::SweepSpec> SweepFromOptions(const OptionValues& values);

/// The daemon's `message` with names of parameters in place of "space[0]" and
/// flags in place of fields.
std::string NameSweepFlags(absl::string_view message, const v1::SweepSpec& spec,
                           const OptionValues& values);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_SWEEP_OPTIONS_H_
