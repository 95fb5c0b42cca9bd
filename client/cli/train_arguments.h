#ifndef HEARTH_CLIENT_CLI_TRAIN_ARGUMENTS_H_
#define HEARTH_CLIENT_CLI_TRAIN_ARGUMENTS_H_

#include <CLI/App.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/option_values.h"

namespace hearth::cli {

/// The options of a train job as a command line gives them: as flags, and as
/// the file of --file.
struct TrainArguments {
  /// Written by the parser; the nodes of a map stay where they are.
  std::map<std::string, std::string> flags = {};
  /// The flags that were given.
  OptionValues values = {};
  std::string file = {};
};

/// Adds --file and a flag for each option of a train job. `arguments` must live
/// as long as the command; its values are there when the command's callback
/// calls the result.
std::function<void()> AddTrainFlags(CLI::App& command,
                                    TrainArguments& arguments);

/// The options of flags and file together. `more`: names of further ones that
/// the file may have.
absl::StatusOr<OptionValues> ReadTrainArguments(
    const TrainArguments& arguments, const std::vector<std::string>& more = {});

/// `status`, which names fields, as the daemon does, with the flags of `values`
/// in their place.
absl::Status WithFlags(const absl::Status& status, const OptionValues& values);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_TRAIN_ARGUMENTS_H_
