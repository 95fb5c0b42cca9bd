#include "client/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/escape.h"

namespace hearth::cli {
namespace {

// Characters rather than bytes, of valid UTF-8.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
}

std::string Padded(const std::string& text, size_t width, Table::Align align) {
  const std::string blanks(width - Width(text), ' ');
  return align == Table::Align::kRight ? blanks + text : text + blanks;
}

}  // namespace

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

}  // namespace hearth::cli
