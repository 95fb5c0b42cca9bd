#include "server/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace hearth::server {
namespace {

// The message, escaped: the flag "%*" of the pattern.
class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = EscapeControlCharacters(
        absl::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

bool IsControl(char c) {
  return absl::ascii_iscntrl(static_cast<unsigned char>(c));
}

}  // namespace

std::string EscapeControlCharacters(absl::string_view text) {
  if (std::none_of(text.begin(), text.end(), IsControl)) {
    return std::string(text);
  }
  return absl::Utf8SafeCEscape(text);
}

void InitializeLogging(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>(
      "hearthd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern(
      "%Y-%m-%dT%H:%M:%S.%e%z %l %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace hearth::server
