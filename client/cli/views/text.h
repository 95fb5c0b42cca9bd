#ifndef HEARTH_CLIENT_CLI_VIEWS_TEXT_H_
#define HEARTH_CLIENT_CLI_VIEWS_TEXT_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

/// `text` fit for a terminal: control characters (C0, DEL and C1) and bytes
/// that are not UTF-8 become "\n", "\t" or "\x1b", so that a name or message
/// from elsewhere cannot move the cursor or fake output.
std::string EscapeControl(absl::string_view text);

/// "117,659".
std::string FormatCount(uint64_t count);

/// "1 epoch", "2 epochs", "1,200 epochs": `one` with an s unless `many` says
/// how several are called.
std::string Counted(uint64_t count, absl::string_view one,
                    absl::string_view many = "");

/// A loss: "0.6931"; with four significant digits, "4.714e+19", where four
/// decimals say too little or would take too many digits.
std::string FormatLoss(double value);

/// "0:42", "12:05", "1:02:03": whole seconds, rounded.
std::string FormatDuration(double seconds);

/// The fewest digits that read back as `value`: "0.003".
std::string FormatDouble(double value);

/// "2026-01-31 13:05:00" in the local time zone; "-" for no time.
std::string FormatTimestamp(const google::protobuf::Timestamp& time);

/// Seconds since 1970.
double Seconds(const google::protobuf::Timestamp& time);

/// Text in aligned columns for people. Cells are escaped (EscapeControl).
/// Single-owner.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  /// No titles at all = no head line.
  explicit Table(std::vector<Column> columns);

  /// REQUIRES: as many cells as columns.
  void AddRow(const std::vector<std::string>& cells);

  /// Two blanks between columns, none at the ends of lines.
  void Print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "edge-list" for the value EDGE_LIST; "auto" for the value 0.
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value);

/// The word for `value`; its number if this client does not know it.
template <typename Enum>
std::string EnumWord(Enum value) {
  const google::protobuf::EnumValueDescriptor* known =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known != nullptr ? EnumWord(*known) : std::to_string(value);
}

/// The values of an enum of the API by their words, for OneOf.
template <typename Enum>
std::map<std::string, Enum> EnumWords() {
  const google::protobuf::EnumDescriptor& all =
      *google::protobuf::GetEnumDescriptor<Enum>();
  std::map<std::string, Enum> words;
  for (int i = 0; i < all.value_count(); ++i) {
    words[EnumWord(*all.value(i))] = static_cast<Enum>(all.value(i)->number());
  }
  return words;
}

/// "45 classes", "121 labels", "1 target"; "no labels" for a width of 0.
std::string LabelWords(v1::LabelKind kind, uint64_t width);

/// The name of a report's metric for users: "accuracy", "micro-F1", "mean
/// squared error", "ROC-AUC", "average precision"; escaped if it is none that
/// this client knows.
std::string MetricWords(const std::string& metric);

/// A metric's value: three decimals for shares, six digits otherwise; "not
/// defined" for NaN.
std::string FormatMetric(const std::string& metric, double value);

/// "queued", "running", ...
std::string StateWord(v1::JobState state);

/// The same with what the job waits for: "waiting: memory: ...", escaped.
std::string StateText(const v1::StateChange& change);

/// "train", "import", "export-dataset": as job ids begin.
std::string KindWord(const v1::JobSpec& spec);

/// "INVALID_ARGUMENT: node_label.npy: ...", escaped, with flags in place of the
/// fields that it names.
std::string ErrorText(const v1::JobError& error);

/// "epoch 3: loss 1.2345, valid accuracy 0.812, 4.2 s".
std::string EpochLine(const v1::EpochReport& epoch);

/// "warning: ...", escaped.
std::string LogText(const v1::LogLine& log);

/// The line of a job's log for an event: its own log line, or one for a state
/// or an epoch; absent for progress.
std::optional<v1::LogLine> LogLineOf(const v1::JobEvent& event);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_TEXT_H_
