#ifndef HEARTH_CLIENT_VERSION_H_
#define HEARTH_CLIENT_VERSION_H_

namespace hearth {

/// Version of the client.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace hearth

#endif  // HEARTH_CLIENT_VERSION_H_
