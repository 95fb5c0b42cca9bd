#ifndef HEARTH_SERVER_VERSION_H_
#define HEARTH_SERVER_VERSION_H_

namespace hearth::server {

/// Version of hearthd.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace hearth::server

#endif  // HEARTH_SERVER_VERSION_H_
