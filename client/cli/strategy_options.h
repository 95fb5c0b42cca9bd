#ifndef HEARTH_CLIENT_CLI_STRATEGY_OPTIONS_H_
#define HEARTH_CLIENT_CLI_STRATEGY_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "client/cli/option_values.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

/// Reads --strategy and the options that belong to it into `data`, and refuses
/// those of other strategies.
void ReadStrategy(OptionReader& options, v1::DataSpec* data);

/// The options that give the strategy of `data`, as (name, value).
std::vector<std::pair<std::string, std::string>> OptionsOfStrategy(
    const v1::DataSpec& data);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_STRATEGY_OPTIONS_H_
