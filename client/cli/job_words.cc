#include "client/cli/job_words.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/label_words.h"
#include "client/cli/option_values.h"
#include "client/cli/train_options.h"

namespace hearth::cli {

std::string StateWord(v1::JobState state) {
  if (!v1::JobState_IsValid(state)) return absl::StrCat("state ", state);
  return absl::AsciiStrToLower(v1::JobState_Name(state));
}

std::string StateText(const v1::StateChange& change) {
  const std::string word = StateWord(change.state());
  if (change.waiting_reason().empty()) return word;
  return absl::StrCat(word, ": ", EscapeControl(change.waiting_reason()));
}

std::string KindWord(const v1::JobSpec& spec) {
  const auto* kind = spec.GetReflection()->GetOneofFieldDescriptor(
      spec, spec.GetDescriptor()->oneof_decl(0));
  if (kind == nullptr) return "unknown";
  return absl::StrReplaceAll(kind->name(), {{"_", "-"}});
}

std::string ErrorText(const v1::JobError& error) {
  return absl::StrCat(
      absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code())),
      ": ", EscapeControl(NameFlags(error.message(), OptionValues())));
}

std::string EpochLine(const v1::EpochReport& epoch) {
  std::string line = absl::StrCat("epoch ", epoch.epoch(), ": loss ",
                                  FormatLoss(epoch.loss()));
  if (epoch.has_valid_metric()) {
    absl::StrAppend(&line, ", valid ", MetricWords(epoch.metric()), " ",
                    FormatMetric(epoch.metric(), epoch.valid_metric()));
  }
  absl::StrAppendFormat(&line, ", %.1f s", epoch.seconds());
  return line;
}

std::string LogText(const v1::LogLine& log) {
  std::string severity = "info";
  if (log.severity() == v1::LogLine::WARNING) severity = "warning";
  if (log.severity() == v1::LogLine::ERROR) severity = "error";
  return absl::StrCat(severity, ": ", EscapeControl(log.text()));
}

std::optional<v1::LogLine> LogLineOf(const v1::JobEvent& event) {
  if (event.has_log()) return event.log();
  v1::LogLine line;
  line.set_severity(v1::LogLine::INFO);
  if (event.has_epoch()) {
    line.set_text(EpochLine(event.epoch()));
    return line;
  }
  if (!event.has_state()) return std::nullopt;
  line.set_text(StateText(event.state()));
  if (event.state().state() == v1::WAITING) {
    line.set_severity(v1::LogLine::WARNING);
  }
  if (event.state().has_error()) {
    line.set_severity(v1::LogLine::ERROR);
    line.set_text(
        absl::StrCat(line.text(), ": ", ErrorText(event.state().error())));
  }
  return line;
}

}  // namespace hearth::cli
