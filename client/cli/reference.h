#ifndef HEARTH_CLIENT_CLI_REFERENCE_H_
#define HEARTH_CLIENT_CLI_REFERENCE_H_

#include <map>
#include <string>

namespace hearth::cli {

/// The page of all options of `hearth train` and `hearth sweep submit`
/// (client/guide/options.md), in Markdown.
std::string OptionsPage();

/// Manual pages of `hearth` and of each command, as roff, by the names of their
/// files: "hearth.1", "hearth-train.1".
std::map<std::string, std::string> ManPages();

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_REFERENCE_H_
