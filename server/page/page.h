#ifndef HEARTH_SERVER_PAGE_PAGE_H_
#define HEARTH_SERVER_PAGE_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/metrics/registry.h"
#include "server/page/daemon_state.h"
#include "server/page/http_server.h"

namespace hearth::server {

/// Serves on `address`: at "/" the page that shows a daemon live, at
/// "/api/state" what it shows, at "/api/events" the same as a stream of
/// server-sent events, and at "/metrics" all series for Prometheus. All must
/// outlive the result. UNAVAILABLE naming the address if it is in use.
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_PAGE_H_
