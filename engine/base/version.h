#ifndef HEARTH_ENGINE_BASE_VERSION_H_
#define HEARTH_ENGINE_BASE_VERSION_H_

namespace hearth {

/// Version of Hearth: of the daemon and of its client.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_VERSION_H_
