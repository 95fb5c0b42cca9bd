#include "server/access/audit_log.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::server {

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(
    const std::string& path, const Clock& clock) {
  std::unique_ptr<AuditLog> log(new AuditLog(path, clock));
  absl::MutexLock lock(&log->mutex_);
  HEARTH_RETURN_IF_ERROR(log->Reopen());
  return log;
}

AuditLog::~AuditLog() {
  if (file_ >= 0) close(file_);
}

bool AuditLog::MayFail(const Caller& caller) {
  const double now = clock_.SteadySeconds();
  if (now - minute_began_ >= 60) {
    minute_began_ = now;
    failures_.clear();
  }
  return ++failures_[caller.name] <= kFailuresPerMinute;
}

void AuditLog::Write(const Caller& caller, absl::string_view method,
                     absl::string_view target, absl::StatusCode result) {
  absl::MutexLock lock(&mutex_);
  if (result != absl::StatusCode::kOk && !MayFail(caller)) {
    ++left_out_;
    return;
  }
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", clock_.Now(),
                                  absl::UTCTimeZone());
  line["caller"] = caller.name;
  line["role"] =
      caller.role == v1::ROLE_UNSPECIFIED ? "" : v1::Role_Name(caller.role);
  line["method"] = std::string(method);
  line["target"] = std::string(target);
  if (!caller.trace_id.empty()) line["trace_id"] = caller.trace_id;
  line["result"] = absl::StatusCodeToString(result);
  if (left_out_ > 0) line["failures_left_out"] = std::exchange(left_out_, 0);
  const std::string text =
      line.dump(-1, ' ', /*ensure_ascii=*/true,
                nlohmann::ordered_json::error_handler_t::replace);
  const absl::Status status = Append(absl::StrCat(text, "\n"));
  if (!status.ok()) {
    spdlog::error("audit log: {}: lost {}", std::string(status.message()),
                  text);
  }
}

absl::Status AuditLog::Reopen() {
  struct stat named {};
  struct stat opened {};
  if (file_ >= 0 && stat(path_.c_str(), &named) == 0 &&
      fstat(file_, &opened) == 0 && named.st_ino == opened.st_ino &&
      named.st_dev == opened.st_dev) {
    return absl::OkStatus();
  }
  const int file =
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, path_, "open");
  if (file_ >= 0) close(file_);
  file_ = file;
  is_torn_ = false;
  return absl::OkStatus();
}

absl::Status AuditLog::Append(std::string line) {
  HEARTH_RETURN_IF_ERROR(Reopen());
  if (is_torn_) line = absl::StrCat("\n", line);
  const ssize_t written = write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    is_torn_ = false;
    return absl::OkStatus();
  }
  if (written < 0) return ErrnoStatus(errno, path_, "write");
  is_torn_ = written > 0;
  return absl::ResourceExhaustedError(
      absl::StrCat(path_, ": only ", written, " bytes could be written"));
}

}  // namespace hearth::server
