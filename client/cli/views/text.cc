#include "client/cli/views/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cli/options/job_options.h"
#include "client/cli/options/option_values.h"

namespace hearth::cli {

namespace {

// Bytes of the UTF-8 character that `text` starts with; 0 if there is none
// (overlong forms, surrogates and code points over U+10FFFF are none).
size_t CharacterSize(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto continues = [&](size_t i, uint8_t low = 0x80,
                             uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool IsControl(absl::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xc2 &&
         static_cast<uint8_t>(character[1]) < 0xa0;
}

// Whether a byte of valid UTF-8 is the first of a character.
bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

void AppendEscaped(absl::string_view bytes, std::string* out) {
  for (const char c : bytes) {
    if (c == '\n') {
      absl::StrAppend(out, "\\n");
    } else if (c == '\t') {
      absl::StrAppend(out, "\\t");
    } else {
      absl::StrAppendFormat(out, "\\x%02x", static_cast<uint8_t>(c));
    }
  }
}

// Characters of `text`, which is valid UTF-8.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), BeginsCharacter);
}

std::string Padded(const std::string& text, size_t width, Table::Align align) {
  const std::string blanks(width - Width(text), ' ');
  return align == Table::Align::kRight ? blanks + text : text + blanks;
}

}  // namespace

std::string EscapeControl(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const absl::string_view character = text.substr(0, size == 0 ? 1 : size);
    if (size == 0 || IsControl(character)) {
      AppendEscaped(character, &out);
    } else {
      absl::StrAppend(&out, character);
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped.push_back(',');
    grouped.push_back(digits[i]);
  }
  return grouped;
}

std::string FormatRows(const v1::RowRange& rows) {
  const std::string all = absl::StrCat(" of ", FormatCount(rows.all()));
  if (rows.first() == rows.end()) return absl::StrCat("no rows", all);
  return absl::StrCat("rows ", FormatCount(rows.first()), "–",
                      FormatCount(rows.end() - 1), all);
}

std::string Counted(uint64_t count, absl::string_view one,
                    absl::string_view many) {
  if (count == 1) return absl::StrCat("1 ", one);
  return many.empty() ? absl::StrCat(FormatCount(count), " ", one, "s")
                      : absl::StrCat(FormatCount(count), " ", many);
}

std::string FormatLoss(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= 0.001 && size < 10'000)
             ? absl::StrFormat("%.4f", value)
             : absl::StrFormat("%.4g", value);
}

std::string FormatDuration(double seconds) {
  const int64_t whole = std::llround(seconds);
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60,
                         whole % 60);
}

std::string FormatDouble(double value) {
  std::array<char, 32> digits;
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end.ptr);
}

std::string FormatTimestamp(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S",
                          absl::FromUnixSeconds(time.seconds()),
                          absl::LocalTimeZone());
}

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + time.nanos() * 1e-9;
}

std::string FirstCharacters(absl::string_view text, size_t count) {
  size_t bytes = 0;
  for (size_t characters = 0; bytes < text.size(); ++bytes) {
    if (BeginsCharacter(text[bytes]) && characters++ == count) break;
  }
  return std::string(text.substr(0, bytes));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool any =
      std::any_of(titles.begin(), titles.end(),
                  [](const auto& title) { return !title.empty(); });
  if (any) rows_.push_back(std::move(titles));
}

void Table::AddRow(const std::vector<std::string>& cells) {
  std::vector<std::string>& row = rows_.emplace_back();
  for (const std::string& cell : cells) row.push_back(EscapeControl(cell));
}

void Table::Print(std::ostream& out) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : "  ",
                      Padded(row[i], widths[i], columns_[i].align));
    }
    absl::StripTrailingAsciiWhitespace(&line);
    out << line << "\n";
  }
}

std::string EnumWord(const google::protobuf::EnumValueDescriptor& value) {
  if (value.number() == 0) return "auto";
  return absl::StrReplaceAll(absl::AsciiStrToLower(value.name()), {{"_", "-"}});
}

std::string LabelWords(v1::LabelKind kind, uint64_t width) {
  if (width == 0) return "no labels";
  switch (kind) {
    case v1::CLASSES:
      return Counted(width, "class", "classes");
    case v1::TARGETS:
      return Counted(width, "target");
    default:
      return Counted(width, "label");
  }
}

std::string MetricWords(const std::string& metric) {
  if (metric == "micro_f1") return "micro-F1";
  if (metric == "mse") return "mean squared error";
  if (metric == "roc_auc") return "ROC-AUC";
  if (metric == "average_precision") return "average precision";
  return EscapeControl(metric);
}

std::string FormatMetric(const std::string& metric, double value) {
  if (std::isnan(value)) return "not defined";
  if (metric == "accuracy" || metric == "micro_f1" || metric == "roc_auc" ||
      metric == "average_precision") {
    return absl::StrFormat("%.3f", value);
  }
  return absl::StrFormat("%.6g", value);
}

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
