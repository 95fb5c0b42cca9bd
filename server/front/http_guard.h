#ifndef HEARTH_SERVER_FRONT_HTTP_GUARD_H_
#define HEARTH_SERVER_FRONT_HTTP_GUARD_H_

#include <memory>

#include "server/front/guard.h"

namespace hearth::server {

/// Bytes of a request of HTTP/1 at most: none has a body.
inline constexpr size_t kMaxHttpRequestBytes = 16 << 10;

/// The guard of a connection with one request of HTTP/1: it has opened with the
/// empty line that ends the request's head.
std::unique_ptr<Guard> NewHttpGuard();

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_HTTP_GUARD_H_
