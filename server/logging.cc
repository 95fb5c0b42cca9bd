#include "server/logging.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

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

// A whole line as JSON, whose strings have escapes of their own.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& out) override {
    const absl::string_view text(message.payload.data(),
                                 message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json line = {
        {"time",
         absl::FormatTime(absl::RFC3339_full, absl::FromChrono(message.time),
                          absl::UTCTimeZone())},
        {"level", std::string(level.data(), level.size())}};
    if (const auto subject = SubjectOf(text)) {
      line["job"] = subject->job;
      if (!subject->trace_id.empty()) line["trace_id"] = subject->trace_id;
    }
    line["message"] = std::string(text);
    const std::string json =
        line.dump(-1, ' ', /*ensure_ascii=*/false,
                  nlohmann::json::error_handler_t::replace);
    out.append(json.data(), json.data() + json.size());
    out.push_back('\n');
  }

  std::unique_ptr<formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::unique_ptr<spdlog::formatter> TextFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern(
      "%Y-%m-%dT%H:%M:%S.%e%z %l %*");
  return formatter;
}

std::unique_ptr<spdlog::formatter> FormatterOf(LogFormat format) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>();
  return TextFormatter();
}

std::atomic<LogFormat> log_format = LogFormat::kText;

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

std::optional<LogSubject> SubjectOf(absl::string_view message) {
  absl::string_view id = message.substr(0, message.find(": "));
  if (id.size() == message.size()) return std::nullopt;
  absl::string_view trace;
  if (const size_t at = id.find(" ["); at != absl::string_view::npos) {
    trace = id.substr(at + 2);
    if (!absl::ConsumeSuffix(&trace, "]")) return std::nullopt;
    id = id.substr(0, at);
  }
  const size_t hyphen = id.find('-');
  if (hyphen == absl::string_view::npos) return std::nullopt;
  const auto is_kind = [](char c) {
    return absl::ascii_islower(c) || c == '_';
  };
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c); };
  const absl::string_view kind = id.substr(0, hyphen);
  const absl::string_view number = id.substr(hyphen + 1);
  if (kind.empty() || number.empty() ||
      !std::all_of(kind.begin(), kind.end(), is_kind) ||
      !std::all_of(number.begin(), number.end(), is_digit)) {
    return std::nullopt;
  }
  return LogSubject{std::string(id), std::string(trace)};
}

void InitializeLogging(const std::string& level, LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>(
      "hearthd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log_format = format;
  logger->set_formatter(FormatterOf(format));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void LogWithoutWaiting(absl::string_view message) {
  if (!spdlog::should_log(spdlog::level::err)) return;
  spdlog::memory_buf_t line;
  FormatterOf(log_format)
      ->format(spdlog::details::log_msg(
                   "hearthd", spdlog::level::err,
                   spdlog::string_view_t(message.data(), message.size())),
               line);
  // A pipe that is ready takes a line as a whole.
  pollfd ready = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hearth::server
