#include "engine/ingest/parse/delimited_text.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::unique_ptr<TextLines> Open(
    const std::string& bytes,
    size_t max_line_bytes = TextLines::kMaxLineBytes) {
  auto lines =
      TextLines::Open(io::NewMemoryFile(bytes, "edge.csv"), max_line_bytes);
  EXPECT_TRUE(lines.ok()) << lines.status();
  return *std::move(lines);
}

std::vector<std::string> All(const std::string& bytes) {
  const auto lines = Open(bytes);
  std::vector<std::string> all;
  while (true) {
    const auto more = lines->Next();
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return all;
    all.emplace_back(lines->line());
    EXPECT_EQ(lines->number(), static_cast<int64_t>(all.size()));
  }
}

TEST(TextLinesTest, EndsOfLines) {
  EXPECT_THAT(All(""), IsEmpty());
  EXPECT_THAT(All("\n"), ElementsAre(""));
  EXPECT_THAT(All("a"), ElementsAre("a"));
  EXPECT_THAT(All("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(All("a\r\n\r\nb\r\n"), ElementsAre("a", "", "b"));
  // A carriage return is part of the line's end only before a newline.
  EXPECT_THAT(All("a\rb\nc\r"), ElementsAre("a\rb", "c\r"));
}

TEST(TextLinesTest, CompressedTextIsDecompressed) {
  EXPECT_THAT(All(Gzip("1,2\n3,4\n")), ElementsAre("1,2", "3,4"));
  EXPECT_THAT(All(Zstd("1,2\n3,4\n")), ElementsAre("1,2", "3,4"));
}

TEST(TextLinesTest, TheRestOfATextMayBeginWithAnything) {
  const std::string text =
      "\xef\xbb\xbf"
      "1\n" +
      std::string(1, '\0') + "2";
  auto stream = NewFileStream(io::NewMemoryFile(text, "edge.csv"));
  ASSERT_TRUE(stream.ok());
  TextLines lines(*std::move(stream), TextLines::kMaxLineBytes,
                  TextLines::Part::kRest);
  ASSERT_TRUE(lines.Next().value());
  EXPECT_EQ(lines.line(),
            "\xef\xbb\xbf"
            "1");
  EXPECT_FALSE(lines.has_mark());
  ASSERT_TRUE(lines.Next().value());
  EXPECT_EQ(lines.line(), absl::string_view("\0"
                                            "2",
                                            2));
  EXPECT_EQ(lines.number(), 2);
  EXPECT_FALSE(lines.Next().value());
}

TEST(TextLinesTest, AByteOrderMarkIsSkipped) {
  for (const std::string text : {"", "1\n",
                                 "1\n\xef\xbb\xbf"
                                 "2"}) {
    const std::string marked = "\xef\xbb\xbf" + text;
    EXPECT_EQ(All(marked), All(text));
    EXPECT_EQ(All(Gzip(marked)), All(text));
    const auto lines = Open(marked);
    EXPECT_EQ(lines->Next().value(), !text.empty());
    EXPECT_TRUE(lines->has_mark());
  }
  const auto lines = Open("1\n");
  EXPECT_TRUE(lines->Next().value());
  EXPECT_FALSE(lines->has_mark());
  // The mark does not count toward the length of the first line.
  EXPECT_TRUE(Open("\xef\xbb\xbf"
                   "12345\n",
                   5)
                  ->Next()
                  .ok());
}

TEST(TextLinesTest, WhatIsNoTextIsRefusedByWhatItIs) {
  for (const std::string& bytes :
       {std::string("\xff\xfe"
                    "0\0",
                    4),
        Gzip(Gzip("0 1\n")), BuildZip({{.name = "a"}})}) {
    const auto lines = Open(bytes);
    const absl::Status refused = lines->Next().status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                testing::StartsWith("edge.csv: is "));
    EXPECT_EQ(lines->Next().status(), refused);
  }
}

TEST(TextLinesTest, LinesCrossTheBuffer) {
  std::string text;
  std::vector<std::string> wanted;
  for (int i = 0; i < 100'000; ++i) {
    wanted.push_back(std::string(i % 29, 'x') + absl::StrCat(i));
    absl::StrAppend(&text, wanted.back(), i % 3 == 0 ? "\r\n" : "\n");
  }
  EXPECT_EQ(All(text), wanted);
  EXPECT_EQ(All(Gzip(text)), wanted);
}

TEST(TextLinesTest, LinesUpToTheLimitAreRead) {
  for (const size_t limit : {size_t{5}, size_t{300'000}}) {
    const std::string longest(limit, 'x');
    for (const char* const end : {"", "\n", "\r\n"}) {
      const auto lines = Open("a\n" + longest + end, limit);
      EXPECT_TRUE(lines->Next().value());
      ASSERT_TRUE(lines->Next().ok()) << limit;
      EXPECT_EQ(lines->line(), longest);
      EXPECT_FALSE(lines->Next().value());
    }
    for (const std::string end : {"x", "x\n", "xx", "xxxxxxx\ny", "x\r\n"}) {
      const auto lines = Open("a\n" + longest + end, limit);
      EXPECT_TRUE(lines->Next().value());
      const absl::Status refused = lines->Next().status();
      EXPECT_EQ(refused.ToString(),
                absl::StrCat("INVALID_ARGUMENT: edge.csv: line 2: is longer "
                             "than ",
                             limit, " bytes"))
          << end;
      EXPECT_EQ(lines->Next().status(), refused);
    }
  }
}

TEST(TextLinesTest, ErrorsOfTheStreamStay) {
  const std::string whole = Gzip("1,2\n");
  const auto lines = Open(whole.substr(0, whole.size() - 3));
  const absl::Status refused = lines->Next().status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_EQ(lines->Next().status(), refused);
}

using testing::HasSubstr;

std::vector<absl::string_view> Split(absl::string_view line,
                                     Separator separator) {
  std::vector<absl::string_view> fields = {"of the line before"};
  SplitFields(line, separator, fields);
  return fields;
}

TEST(SplitFieldsTest, AtCommas) {
  const auto split = [](absl::string_view line) {
    return Split(line, Separator::kComma);
  };
  EXPECT_THAT(split("1,22,3"), ElementsAre("1", "22", "3"));
  EXPECT_THAT(split(" 1 ,\t2 x\t, 3 "), ElementsAre("1", "2 x", "3"));
  EXPECT_THAT(split(",a,"), ElementsAre("", "a", ""));
  EXPECT_THAT(split(" , "), ElementsAre("", ""));
  EXPECT_THAT(split(""), IsEmpty());
  EXPECT_THAT(split(" \t"), IsEmpty());
}

TEST(SplitFieldsTest, AtBlanks) {
  const auto split = [](absl::string_view line) {
    return Split(line, Separator::kBlank);
  };
  EXPECT_THAT(split("1 2\t3"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(split("  1 \t 2  "), ElementsAre("1", "2"));
  EXPECT_THAT(split("1,2"), ElementsAre("1,2"));
  EXPECT_THAT(split(""), IsEmpty());
  EXPECT_THAT(split("  "), IsEmpty());
}

TEST(SplitFieldsTest, AtSemicolonsAndTabs) {
  EXPECT_THAT(Split(" 1 ;2,5;\t", Separator::kSemicolon),
              ElementsAre("1", "2,5", ""));
  EXPECT_THAT(Split("1\t new york \t\t3", Separator::kTab),
              ElementsAre("1", "new york", "", "3"));
  EXPECT_THAT(Split("\t1", Separator::kTab), ElementsAre("", "1"));
  EXPECT_THAT(Split("", Separator::kTab), IsEmpty());
}

TEST(LooksLikeNumberTest, NumbersAndWords) {
  for (const char* const number : {"0", "-7", "+7", "007", "1.5", ".5", "1e3",
                                   "-2.5E-7", "99999999999999999999"}) {
    EXPECT_TRUE(LooksLikeNumber(number)) << number;
  }
  for (const char* const word : {"", "-", "+", "src", "nan", "inf", "1x", "x1",
                                 "1 2", "0x1f", "2009-01-01", "--1", "\"1\""}) {
    EXPECT_FALSE(LooksLikeNumber(word)) << word;
  }
}

/// Numbers of `line`, the third line of its file.
template <typename T>
absl::StatusOr<std::vector<T>> Parse(const std::string& line, size_t count,
                                     Separator separator = Separator::kComma) {
  auto lines = TextLines::Open(io::NewMemoryFile("\n\n" + line, "e.csv"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*lines)->Next().value());
  std::vector<T> out(count);
  const absl::Status status =
      ParseFields(**lines, separator, absl::MakeSpan(out));
  if (!status.ok()) return status;
  return out;
}

std::string IntError(const std::string& line) {
  return std::string(Parse<int64_t>(line, 2).status().message());
}

std::string FloatError(const std::string& line) {
  return std::string(Parse<float>(line, 1).status().message());
}

TEST(ParseFieldsTest, Integers) {
  EXPECT_THAT(*Parse<int64_t>("12,-7\r\n", 2), ElementsAre(12, -7));
  EXPECT_THAT(*Parse<int64_t>("1\t2", 2, Separator::kBlank), ElementsAre(1, 2));
  EXPECT_THAT(*Parse<int64_t>("9223372036854775807,-9223372036854775808", 2),
              ElementsAre(std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(*Parse<int64_t>(" ", 0), IsEmpty());
}

TEST(ParseFieldsTest, WhatIsNoInteger) {
  EXPECT_EQ(IntError("1,x2"), "e.csv: line 3, field 2: is not an integer");
  for (const std::string bad : {"1.0", "+1", "1e3", "0x1", "", "-", "1 2",
                                "--1", "1\v", "1\"", "nan"}) {
    EXPECT_EQ(IntError(bad + ",1"), "e.csv: line 3, field 1: is not an integer")
        << bad;
  }
  EXPECT_EQ(IntError("9223372036854775808,1"),
            "e.csv: line 3, field 1: is an integer out of range");
  // The message names the byte after the digits.
  EXPECT_THAT(IntError("99999999999999999999z,1"),
              HasSubstr("is not an integer"));
}

TEST(ParseFieldsTest, WhatIsSuspected) {
  EXPECT_EQ(IntError("0;1"),
            "e.csv: line 3, field 1: is not an integer (semicolons do not "
            "separate fields here)");
  auto lines = TextLines::Open(io::NewMemoryFile("src,dst\n", "e.csv"));
  ASSERT_TRUE((*lines)->Next().value());
  std::vector<int64_t> out(2);
  EXPECT_EQ(
      ParseFields(**lines, Separator::kComma, absl::MakeSpan(out)).message(),
      "e.csv: line 1, field 1: is not an integer (a header?)");
}

TEST(ParseFieldTest, OneOfALine) {
  auto lines = TextLines::Open(io::NewMemoryFile("a;7;0.5\n", "e.csv"));
  ASSERT_TRUE((*lines)->Next().value());
  std::vector<absl::string_view> fields;
  SplitFields((*lines)->line(), Separator::kSemicolon, fields);
  int64_t number = 0;
  ASSERT_TRUE(ParseField(**lines, fields, 1, number).ok());
  EXPECT_EQ(number, 7);
  EXPECT_EQ(ParseField(**lines, fields, 2, number).message(),
            "e.csv: line 1, field 3: is not an integer");
}

TEST(ParseFieldsTest, NumbersOfFields) {
  EXPECT_EQ(IntError("1"), "e.csv: line 3: has 1 fields; 2 are needed");
  EXPECT_EQ(IntError(" "), "e.csv: line 3: has 0 fields; 2 are needed");
  EXPECT_EQ(IntError("1,2,3"), "e.csv: line 3: has more than 2 fields");
  EXPECT_EQ(IntError("1,2,"), "e.csv: line 3: has more than 2 fields");
}

TEST(ParseFieldsTest, Floats) {
  EXPECT_THAT(*Parse<float>("1,-0.5,1e3,.25,3.", 5),
              ElementsAre(1, -0.5, 1000, 0.25, 3));
  EXPECT_THAT(*Parse<double>("0.1", 1), ElementsAre(0.1));
  EXPECT_TRUE(std::isnan(Parse<float>("NaN", 1)->front()));
  EXPECT_EQ(Parse<double>("-inf", 1)->front(),
            -std::numeric_limits<double>::infinity());
}

TEST(ParseFieldsTest, FloatsOutOfRange) {
  EXPECT_THAT(FloatError("1e39"), HasSubstr("is a number out of range"));
  EXPECT_THAT(FloatError("1e99999"), HasSubstr("out of range"));
  EXPECT_EQ(Parse<float>("1e-60", 1)->front(), 0);
  EXPECT_EQ(Parse<double>("-1E-99999", 1)->front(), 0);
  EXPECT_EQ(Parse<float>("1e-40", 1)->front(), 1e-40f);
}

TEST(ParseFieldsTest, WhatIsNoFloat) {
  for (const std::string bad :
       {"x", "+1", "1f", "0x1p3", "1,5", "1e", "e5", "1 1"}) {
    EXPECT_FALSE(Parse<float>(bad, 1).ok()) << bad;
  }
  EXPECT_EQ(FloatError("x\n"), "e.csv: line 3, field 1: is not a number");
}

}  // namespace

}  // namespace hearth::ingest
