#ifndef HEARTH_CLIENT_SMALL_FILE_H_
#define HEARTH_CLIENT_SMALL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hearth::client {

/// The whole of a file of at most 1 MiB. Errors name the path, and never show
/// what is in the file.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

/// The same for a secret: FAILED_PRECONDITION if everybody may read the file.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

/// Replaces a file at once, mode 0600, and makes its folder, mode 0700.
absl::Status WriteSmallFile(const std::string& path, const std::string& text);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SMALL_FILE_H_
