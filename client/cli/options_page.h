#ifndef HEARTH_CLIENT_CLI_OPTIONS_PAGE_H_
#define HEARTH_CLIENT_CLI_OPTIONS_PAGE_H_

#include <string>

namespace hearth::cli {

/// The reference page of all options of `hearth train`, in Markdown.
std::string OptionsPage();

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_PAGE_H_
