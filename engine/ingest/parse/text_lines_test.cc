#include "engine/ingest/parse/text_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ingest/parse/zip_builder.h"
#include "engine/io/memory_file.h"
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
  // Only before a newline does a carriage return belong to the line's end.
  EXPECT_THAT(All("a\rb\nc\r"), ElementsAre("a\rb", "c\r"));
}

TEST(TextLinesTest, CompressedTextIsDecompressed) {
  EXPECT_THAT(All(Gzip("1,2\n3,4\n")), ElementsAre("1,2", "3,4"));
  EXPECT_THAT(All(Zstd("1,2\n3,4\n")), ElementsAre("1,2", "3,4"));
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
  // A line may be as long with a mark before it as without.
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

}  // namespace
}  // namespace hearth::ingest
