#ifndef HEARTH_CLIENT_CLI_OPTION_VALUES_H_
#define HEARTH_CLIENT_CLI_OPTION_VALUES_H_

#include <map>
#include <string>

namespace hearth::cli {

/// An option's value as it was written, and where.
struct OptionValue {
  std::string text;
  /// For error messages: "--epochs" or "job.yaml line 3: epochs".
  std::string source;
};

/// Values by option name, such as "batch-size".
using OptionValues = std::map<std::string, OptionValue>;

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTION_VALUES_H_
