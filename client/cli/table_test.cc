#include "client/cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace hearth::cli {
namespace {

std::string Print(const Table& table) {
  std::ostringstream out;
  table.Print(out);
  return out.str();
}

TEST(Table, AlignsColumns) {
  Table table({{"name"}, {"nodes", Table::Align::kRight}, {"state"}});
  table.AddRow({"cora", "2,708", "ok"});
  table.AddRow({"wordnet", "117,659", ""});
  EXPECT_EQ(Print(table),
            "name       nodes  state\n"
            "cora       2,708  ok\n"
            "wordnet  117,659\n");
}

TEST(Table, HasNoHeadWithoutTitles) {
  Table table({{""}, {""}});
  table.AddRow({"pid", "42"});
  EXPECT_EQ(Print(table), "pid  42\n");
}

TEST(Table, HeadStandsAloneWithoutRows) {
  EXPECT_EQ(Print(Table({{"name"}, {"nodes"}})), "name  nodes\n");
}

TEST(Table, EscapesCells) {
  Table table({{""}});
  table.AddRow({"a\x1b[2Jb\n"});
  EXPECT_EQ(Print(table), "a\\x1b[2Jb\\n\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{""}, {""}});
  table.AddRow({"zürich", "1"});
  table.AddRow({"berlin", "2"});
  EXPECT_EQ(Print(table), "zürich  1\nberlin  2\n");
}

}  // namespace
}  // namespace hearth::cli
