#include "engine/store/strict_json.h"

#include <string>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseStrictJsonTest, ParsesJson) {
  const auto json = ParseStrictJson(R"({"a": [1, {"b": null}], "c": "x"})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"][0], 1);
  EXPECT_EQ((*json)["c"], "x");
}

TEST(ParseStrictJsonTest, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_TRUE(ParseStrictJson(R"({"a": {"a": {"a": 1}}, "b": {"a": 2}})").ok());
}

class MalformedJsonTest : public testing::TestWithParam<std::string> {};

TEST_P(MalformedJsonTest, IsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ParseStrictJson(GetParam()).status()));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, MalformedJsonTest,
    testing::Values("", "{", "{\"a\": 1} x", "{'a': 1}", "{\"a\": 1,}",
                    "{\"a\": 1, \"a\": 2}", "{\"b\": {\"a\": 1, \"a\": 1}}",
                    "{\"a\": 1e999}", "\"\xff\"", "nul",
                    std::string(40, '[') + std::string(40, ']'),
                    // Deep enough to end a recursive parser.
                    std::string(1 << 20, '['),
                    std::string(1 << 19, '[') + std::string(1 << 19, ']')));

TEST(ParseStrictJsonTest, NamesTheKeyThatIsThereTwice) {
  EXPECT_THAT(
      std::string(
          ParseStrictJson(R"({"a\n": 1, "a\n": 2})").status().message()),
      HasSubstr("\"a\\n\" twice"));
}

TEST(IsUtf8Test, TellsTextFromBytes) {
  for (const char* text : {"", "plain", "\"quoted\\\"\n", "caf\xc3\xa9"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\xff", "caf\xe9", "\xc3", "\xed\xa0\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

class JsonFieldsTest : public testing::Test {
 protected:
  // Parsed, not built: numbers then have the types that files give them.
  const nlohmann::json json_ = *ParseStrictJson(R"({
      "int": -5, "big": 18446744073709551615, "text": "x", "yes": true,
      "sizes": [1, 0, 7], "names": ["a", "b"], "real": 1.5,
      "negative": [1, -1], "inner": {"x": 1}, "mixed": [1, "a"],
      "list": [{"x": 1}, 5]})");
  JsonFields fields_{json_, "top"};

  std::string Message() { return std::string(fields_.status().message()); }
};

TEST_F(JsonFieldsTest, ReadsWhatIsThere) {
  EXPECT_EQ(fields_.Int("int", -5, 0), -5);
  EXPECT_EQ(fields_.Uint("big", UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(fields_.String("text"), "x");
  EXPECT_TRUE(fields_.Bool("yes"));
  EXPECT_THAT(fields_.NonNegativeInts("sizes"), ElementsAre(1, 0, 7));
  EXPECT_THAT(fields_.Strings("names"), ElementsAre("a", "b"));
  EXPECT_EQ(fields_.Object("inner").Int("x", 0, 9), 1);
  EXPECT_TRUE(fields_.Has("int"));
  EXPECT_FALSE(fields_.Has("none"));
  EXPECT_TRUE(fields_.status().ok());
}

TEST_F(JsonFieldsTest, TheFirstErrorStays) {
  fields_.String("int");
  EXPECT_EQ(Message(), "top.int is not a string");
  fields_.Bool("text");
  EXPECT_EQ(fields_.Int("int", -9, 9), 0);
  EXPECT_EQ(Message(), "top.int is not a string");
}

TEST_F(JsonFieldsTest, MissingFieldsAreNamed) {
  fields_.Int("none", 0, 1);
  EXPECT_EQ(Message(), "top.none is missing");
}

TEST_F(JsonFieldsTest, IntegersHaveRanges) {
  EXPECT_EQ(fields_.Int("int", 0, 10), 0);
  EXPECT_EQ(Message(), "top.int is not an integer in 0 .. 10");
  for (const char* key : {"big", "real", "text", "yes"}) {
    JsonFields fields(json_, "top");
    fields.Int(key, INT64_MIN, INT64_MAX);
    EXPECT_FALSE(fields.status().ok()) << key;
  }
  for (const char* key : {"int", "big", "real", "text"}) {
    JsonFields fields(json_, "top");
    fields.Uint(key, 100);
    EXPECT_FALSE(fields.status().ok()) << key;
  }
}

TEST_F(JsonFieldsTest, ListsHaveOneType) {
  for (const char* key : {"negative", "mixed", "names", "int"}) {
    JsonFields fields(json_, "top");
    EXPECT_TRUE(fields.NonNegativeInts(key).empty());
    EXPECT_FALSE(fields.status().ok()) << key;
  }
  for (const char* key : {"sizes", "mixed", "text"}) {
    JsonFields fields(json_, "top");
    EXPECT_TRUE(fields.Strings(key).empty());
    EXPECT_FALSE(fields.status().ok()) << key;
  }
}

TEST(JsonDoublesTest, AnyNumberIsOne) {
  const nlohmann::json json = *ParseStrictJson(
      R"({"half": -0.5, "whole": 3, "text": "1.5", "nothing": null})");
  JsonFields fields(json, "top");
  EXPECT_EQ(fields.Double("half"), -0.5);
  EXPECT_EQ(fields.Double("whole"), 3.0);
  EXPECT_TRUE(fields.status().ok()) << fields.status();
  for (const char* key : {"text", "nothing", "absent"}) {
    JsonFields wrong(json, "top");
    EXPECT_EQ(wrong.Double(key), 0);
    EXPECT_FALSE(wrong.status().ok()) << key;
  }
}

TEST_F(JsonFieldsTest, ErrorsWithinAreTheWholes) {
  fields_.Objects("list");
  EXPECT_EQ(Message(), "top.list[1] is not a JSON object");
  JsonFields other(json_, "top");
  JsonFields inner = other.Object("inner");
  inner.Fail("x", "is odd");
  other.Absorb(inner);
  EXPECT_EQ(other.status().message(), "top.inner.x is odd");
}

class ReadSealedJsonTest : public testing::Test {
 protected:
  absl::Status Write(const std::string& text) {
    return io::WriteFileAtomically(files_, path_, text);
  }

  absl::Status Read() {
    return ReadSealedJson(files_, path_, /*limit_bytes=*/1024, /*format=*/3,
                          [&](const nlohmann::json& object) {
                            value_ = object.at("value").get<int>();
                            return value_ > 0;
                          });
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("sealed.json");
  int value_ = 0;
};

TEST_F(ReadSealedJsonTest, ParsesAFile) {
  ASSERT_TRUE(Write(SealJson({{"format", 3}, {"value", 7}})).ok());
  EXPECT_EQ(Read(), absl::OkStatus());
  EXPECT_EQ(value_, 7);
}

TEST_F(ReadSealedJsonTest, AnAbsentFileIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(Read()));
}

TEST_F(ReadSealedJsonTest, AnyOtherContentIsDamageThatNamesTheFile) {
  std::string broken = SealJson({{"format", 3}, {"value", 7}});
  broken[broken.find('7')] = '8';
  for (const std::string& text : {broken, std::string(), std::string("{}"),
                                  SealJson({{"format", 4}, {"value", 7}}),
                                  SealJson({{"format", 3}, {"value", 0}}),
                                  SealJson({{"format", 3}, {"value", "seven"}}),
                                  SealJson({{"value", 7}})}) {
    ASSERT_TRUE(Write(text).ok());
    const absl::Status read = Read();
    EXPECT_TRUE(absl::IsDataLoss(read)) << text << read;
    EXPECT_THAT(read.message(), HasSubstr(path_));
  }
}

}  // namespace
}  // namespace hearth::store
