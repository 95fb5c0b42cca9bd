#include "server/page/page.h"

#include "absl/strings/string_view.h"
#include "server/page/assets.h"

namespace hearth::server {
namespace {

HttpResource Asset(const char* path, const char* content_type,
                   absl::string_view text) {
  return {.path = path, .content_type = content_type, .body = [text] {
            return std::string(text);
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state) {
  const auto json = [&state] { return state.Json(); };
  return HttpServer::Listen(
      address,
      {Asset("/", "text/html; charset=utf-8", kPageHtml),
       Asset("/page.css", "text/css; charset=utf-8", kPageCss),
       Asset("/page.js", "text/javascript; charset=utf-8", kPageJs),
       {.path = "/api/state", .content_type = "application/json", .body = json},
       {.path = "/metrics",
        .content_type = "text/plain; version=0.0.4; charset=utf-8",
        .body = [&registry] { return registry.Text(); }}},
      {.path = "/api/events", .data = json});
}

}  // namespace hearth::server
