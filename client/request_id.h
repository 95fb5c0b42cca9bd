#ifndef HEARTH_CLIENT_REQUEST_ID_H_
#define HEARTH_CLIENT_REQUEST_ID_H_

#include <string>

namespace hearth::client {

/// A random UUID (RFC 4122, version 4) from the system's randomness.
std::string NewRequestId();

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_REQUEST_ID_H_
