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

/// The options of `hearth sweep submit`: those of the search, those of
/// `hearth train`, and the space.

namespace hearth::cli {

/// Options of the space are named "space.lr".
inline constexpr char kSpacePrefix[] = "space.";

/// All but those of the space, in the order of the proto; and those of the
/// search alone: flags that jobs have, too, come last, without their fields.
const std::vector<Flag>& SweepFlags();
std::vector<Flag> SearchFlags();

/// Adds `text`, a `--space` such as "lr=log:1e-4:1e-1", to `values`.
/// INVALID_ARGUMENT if it has no "=", or the parameter is there.
absl::Status AddSpace(const std::string& text, OptionValues& values);

/// The parameter `name` with the values that `value` says: "a,b", "a|b" (for
/// values with commas), "int:LOW:HIGH", "uniform:LOW:HIGH", "log:LOW:HIGH",
/// ranges with a number of steps behind for a grid. INVALID_ARGUMENT for
/// anything else.
absl::StatusOr<v1::SweepParameter> ParameterFromText(const std::string& name,
                                                     const OptionValue& value);

/// The sweep that `values` ask for; errors as TrainJobFromOptions.
absl::StatusOr<v1::SweepSpec> SweepFromOptions(const OptionValues& values);

/// The daemon's `message` with parameters in place of "space[0]", and flags in
/// place of fields.
std::string NameSweepFlags(absl::string_view message, const v1::SweepSpec& spec,
                           const OptionValues& values);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_SWEEP_OPTIONS_H_
