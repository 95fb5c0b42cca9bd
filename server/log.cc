#include "server/log.h"

#include <spdlog/spdlog.h>

namespace hearth::server {
namespace {

spdlog::level::level_enum LevelOf(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kDebug:
      return spdlog::level::debug;
    case LogSeverity::kInfo:
      return spdlog::level::info;
    case LogSeverity::kWarning:
      return spdlog::level::warn;
    case LogSeverity::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void Log(LogSeverity severity, absl::string_view text) {
  spdlog::log(LevelOf(severity),
              spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace hearth::server
