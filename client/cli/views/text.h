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
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/spec.pb.h"

/// Values as text for people: escaped, counted, shortened, in words, in tables.

namespace hearth::cli {

/// `text` fit for a terminal: control characters (C0, DEL and C1) and bytes
/// that are not UTF-8 become "\n", "\t" or "\x1b", so that names and messages
/// of others cannot move the cursor or fake output.
std::string EscapeControl(absl::string_view text);

/// A count with separators: "117,659".
std::string FormatCount(uint64_t count);

/// "rows 0–49 of 117,659"; "no rows of 117,659".
std::string FormatRows(const v1::RowRange& rows);

/// A count of things: "1 epoch", "2 epochs", "1,200 epochs". The plural is
/// `many`, or `one` with an s if `many` is empty.
std::string Counted(uint64_t count, absl::string_view one,
                    absl::string_view many = "");

/// A loss: "0.6931"; below 0.001 and from 10,000 on with four significant
/// digits: "4.714e+19".
std::string FormatLoss(double value);

/// A duration in rounded seconds: "0:42", "12:05", "1:02:03".
std::string FormatDuration(double seconds);

/// `value` with the fewest digits that read back equal: "0.003".
std::string FormatDouble(double value);

/// A time in the local time zone: "2026-01-31 13:05:00"; "-" for no time.
std::string FormatTimestamp(const google::protobuf::Timestamp& time);

/// Seconds since 1970.
double Seconds(const google::protobuf::Timestamp& time);

/// The first `count` characters of `text`, which is valid UTF-8.
std::string FirstCharacters(absl::string_view text, size_t count);

/// A table in aligned columns. Cells are escaped (EscapeControl). Single-owner.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  /// Without any title the table has no head line.
  explicit Table(std::vector<Column> columns);

  /// Adds a row. REQUIRES: one cell for each column.
  void AddRow(const std::vector<std::string>& cells);

  /// Prints all rows, with two blanks between columns and none at line ends.
  void Print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// The word for an enum value: "edge-list" for EDGE_LIST, "auto" for 0.
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value);

/// The word for `value`; its number if this client does not know the value.
template <typename Enum>
std::string EnumWord(Enum value) {
  const google::protobuf::EnumValueDescriptor* known =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known != nullptr ? EnumWord(*known) : std::to_string(value);
}

/// Values of an enum of the API by their words, for OneOf.
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

/// Labels in words: "45 classes", "121 labels", "1 target"; "no labels" for a
/// width of 0.
std::string LabelWords(v1::LabelKind kind, uint64_t width);

/// Name of a metric for users: "accuracy", "micro-F1", "mean squared error",
/// "ROC-AUC", "average precision". Unknown metrics are escaped.
std::string MetricWords(const std::string& metric);

/// Value of a metric: three decimals for shares, six digits for others; "not
/// defined" for NaN.
std::string FormatMetric(const std::string& metric, double value);

/// A job's state in a word: "queued", "running".
std::string StateWord(v1::JobState state);

/// A job's state with the reason of waiting, escaped: "waiting: memory: ...".
std::string StateText(const v1::StateChange& change);

/// Kind of a job, with which its id begins: "train", "import",
/// "export-dataset".
std::string KindWord(const v1::JobSpec& spec);

/// A job's error, escaped, with flags in place of fields:
/// "INVALID_ARGUMENT: node_label.npy: ...".
std::string ErrorText(const v1::JobError& error);

/// An epoch in a line: "epoch 3: loss 1.2345, valid accuracy 0.812, 4.2 s".
std::string EpochLine(const v1::EpochReport& epoch);

/// A log line with its severity, escaped: "warning: ...".
std::string LogText(const v1::LogLine& log);

/// The log line of an event: its own, or a line about a state or an epoch;
/// nullopt for progress.
std::optional<v1::LogLine> LogLineOf(const v1::JobEvent& event);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_TEXT_H_
