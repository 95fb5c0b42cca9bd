#ifndef HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_
#define HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hearth::cli {

/// An option's value as it was written, and where.
struct OptionValue {
  std::string text;
  /// For error messages: "--epochs" or "job.yaml line 3: epochs".
  std::string source;
};

/// Values by option name, such as "batch-size".
using OptionValues = std::map<std::string, OptionValue>;

/// Largest job file, in bytes: parsing takes a thousand times as much memory.
constexpr size_t kMaxYamlBytes = 64 << 10;

/// Options of a job file: one YAML mapping from option names ("batch-size") to
/// values; a list may be written [10, 10] or "10,10". INVALID_ARGUMENT names
/// `name` and the line for anything else: names not in `known`, names given
/// twice, values that are no scalars, more than kMaxYamlBytes. The value of a
/// name in `maps` is a mapping itself, from any names: its entries are options
/// such as "space.lr", and a list is written "a|b".
absl::StatusOr<OptionValues> ParseYamlOptions(
    const std::string& yaml, const std::string& name,
    const std::vector<std::string>& known,
    const std::vector<std::string>& maps = {});

/// As ParseYamlOptions, for the file at `path`.
absl::StatusOr<OptionValues> ReadYamlOptions(
    const std::string& path, const std::vector<std::string>& known,
    const std::vector<std::string>& maps = {});

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_
