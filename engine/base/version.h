#ifndef HEARTH_ENGINE_BASE_VERSION_H_
#define HEARTH_ENGINE_BASE_VERSION_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hearth {

/// Version of Hearth: of daemon, command line and Python client, which are
/// released together. Builds of the packages read it from this line.
inline constexpr char kVersion[] = "0.1.0";

/// OK if a client and a daemon of these versions understand each other: both
/// have the same first number, and if that is 0, the same second number. Also
/// OK if a version is not made of numbers. Otherwise FAILED_PRECONDITION with a
/// message that says which of the two is older.
absl::Status CheckVersions(absl::string_view client, absl::string_view daemon);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_VERSION_H_
