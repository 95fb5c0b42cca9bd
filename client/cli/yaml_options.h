#ifndef HEARTH_CLIENT_CLI_YAML_OPTIONS_H_
#define HEARTH_CLIENT_CLI_YAML_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/option_values.h"

namespace hearth::cli {

/// Largest job file, in bytes: parsing takes a thousand times as much memory.
constexpr size_t kMaxYamlBytes = 64 << 10;

/// Options of a job file: one YAML mapping from option names ("batch-size") to
/// values; a list may be written [10, 10] or "10,10". INVALID_ARGUMENT names
/// `name` and the line for anything else: names not in `known`, names given
/// twice, values that are no scalars, more than kMaxYamlBytes.
absl::StatusOr<OptionValues> ParseYamlOptions(
    const std::string& yaml, const std::string& name,
    const std::vector<std::string>& known);

/// As ParseYamlOptions, for the file at `path`.
absl::StatusOr<OptionValues> ReadYamlOptions(
    const std::string& path, const std::vector<std::string>& known);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_YAML_OPTIONS_H_
