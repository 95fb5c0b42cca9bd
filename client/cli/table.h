#ifndef HEARTH_CLIENT_CLI_TABLE_H_
#define HEARTH_CLIENT_CLI_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace hearth::cli {

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

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_TABLE_H_
