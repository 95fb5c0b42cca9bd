#ifndef HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_
#define HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

/// Values of options as they are written: on a command line, or in a job file
/// in YAML. No protobuf here: the fuzzer of YAML links this library alone.

namespace hearth::cli {

/// An option's value as it is written, and the place.
struct OptionValue {
  std::string text;
  /// Place, for error messages: "--epochs" or "job.yaml line 3: epochs".
  std::string source;
};

/// Values by names of options, such as "batch-size".
using OptionValues = std::map<std::string, OptionValue>;

/// Bytes of the largest job file: parsing takes a thousand times as much
/// memory.
constexpr size_t kMaxYamlBytes = 64 << 10;

/// Options of a job file: one YAML mapping from names in `known` ("batch-size")
/// to values; a list may be written [10, 10] or "10,10". The value of a name in
/// `maps` is a mapping from any names: its entries are options such as
/// "space.lr", and its lists become "a|b". INVALID_ARGUMENT, with `name` and
/// the line, for anything else: unknown names, names given twice, values that
/// are no scalars, more than kMaxYamlBytes.
absl::StatusOr<OptionValues> ParseYamlOptions(
    const std::string& yaml, const std::string& name,
    const std::vector<std::string>& known,
    const std::vector<std::string>& maps = {});

/// ParseYamlOptions of the file at `path`.
absl::StatusOr<OptionValues> ReadYamlOptions(
    const std::string& path, const std::vector<std::string>& known,
    const std::vector<std::string>& maps = {});

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_OPTION_VALUES_H_
