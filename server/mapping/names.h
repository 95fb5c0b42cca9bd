#ifndef HEARTH_SERVER_MAPPING_NAMES_H_
#define HEARTH_SERVER_MAPPING_NAMES_H_

#include "absl/strings/string_view.h"

namespace hearth::server {

/// Whether `name` may name a dataset, and so a folder: letters, digits, '.',
/// '_' and '-', starting with a letter or digit, 1 to 128 characters, not
/// ending in ".tmp".
bool IsValidName(absl::string_view name);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_NAMES_H_
