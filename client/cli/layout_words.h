#ifndef HEARTH_CLIENT_CLI_LAYOUT_WORDS_H_
#define HEARTH_CLIENT_CLI_LAYOUT_WORDS_H_

#include <map>
#include <string>

#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

/// The words of `--format`; "auto" is LAYOUT_UNSPECIFIED.
const std::map<std::string, v1::Layout>& LayoutWords();

/// The inverse of LayoutWords; a number for a layout that this client does not
/// know.
std::string LayoutWord(v1::Layout layout);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_LAYOUT_WORDS_H_
