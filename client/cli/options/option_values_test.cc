#include "client/cli/options/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace hearth::cli {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kKnown = {"dataset", "epochs", "fanouts"};

absl::StatusOr<OptionValues> Parse(const std::string& yaml) {
  return ParseYamlOptions(yaml, "job.yaml", kKnown);
}

std::string ErrorOf(const std::string& yaml) {
  const absl::StatusOr<OptionValues> values = Parse(yaml);
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(values.status().message());
}

TEST(ParseYamlOptions, KeepsValuesAsWritten) {
  const auto values = Parse("# a job\ndataset: cora\nepochs: 010\n");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->at("dataset").text, "cora");
  EXPECT_EQ(values->at("epochs").text, "010");
  EXPECT_EQ(values->at("epochs").source, "job.yaml line 3: epochs");
}

TEST(ParseYamlOptions, JoinsLists) {
  EXPECT_EQ(Parse("fanouts: [10, 10, -1]")->at("fanouts").text, "10,10,-1");
  EXPECT_EQ(Parse("fanouts: 10,5")->at("fanouts").text, "10,5");
}

TEST(ParseYamlOptions, EmptyFilesSetNothing) {
  EXPECT_TRUE(Parse("")->empty());
  EXPECT_TRUE(Parse("# nothing\n")->empty());
}

TEST(ParseYamlOptions, NamesTheLineOfUnknownOptions) {
  EXPECT_EQ(ErrorOf("dataset: cora\nepoch: 3\n"),
            "job.yaml line 2: unknown option \"epoch\"; did you mean epochs?");
  EXPECT_EQ(ErrorOf("dataset: cora\nwidth: 3\n"),
            "job.yaml line 2: unknown option \"width\"; there are dataset, "
            "epochs, fanouts");
}

TEST(ParseYamlOptions, RefusesWhatIsNoMappingOfScalars) {
  EXPECT_THAT(ErrorOf("- cora\n"), HasSubstr("line 1: expected lines"));
  EXPECT_THAT(ErrorOf("epochs: {a: 1}"), HasSubstr("epochs needs a value"));
  EXPECT_THAT(ErrorOf("fanouts: [[1]]"), HasSubstr("fanouts needs a value"));
  EXPECT_THAT(ErrorOf("fanouts: []"), HasSubstr("fanouts needs a value"));
  EXPECT_THAT(ErrorOf("epochs:"), HasSubstr("epochs needs a value"));
  EXPECT_THAT(ErrorOf("? [a]\n: b"), HasSubstr("unknown option"));
}

TEST(ParseYamlOptions, RefusesTwoOfAnything) {
  EXPECT_THAT(ErrorOf("epochs: 1\nepochs: 2\n"),
              HasSubstr("line 2: epochs is given twice"));
  EXPECT_THAT(ErrorOf("epochs: 1\n---\nepochs: 2\n"),
              HasSubstr("second document"));
}

TEST(ParseYamlOptions, NamesTheLineOfBrokenYaml) {
  EXPECT_THAT(ErrorOf("dataset: cora\nepochs: [1\n"),
              HasSubstr("job.yaml line "));
}

TEST(ParseYamlOptions, EndsWhereYamlCppGoesOnForever) {
  EXPECT_THAT(ErrorOf(","), HasSubstr("second document"));
  EXPECT_THAT(ErrorOf(",epochs: 3\n"), HasSubstr("second document"));
}

TEST(ParseYamlOptions, RefusesLargeFilesUnparsed) {
  EXPECT_TRUE(Parse(std::string(kMaxYamlBytes, '\n')).ok());
  EXPECT_THAT(ErrorOf(std::string(kMaxYamlBytes + 1, '\n')),
              HasSubstr("more than 65536 bytes"));
}

TEST(ReadYamlOptions, ReadsAFile) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/j.yaml";
  std::ofstream(path) << "epochs: 3\n";
  EXPECT_EQ(ReadYamlOptions(path, kKnown)->at("epochs").text, "3");
}

TEST(ReadYamlOptions, NamesAMissingFile) {
  const absl::Status status = ReadYamlOptions("/no/such", kKnown).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such"));
}

}  // namespace
}  // namespace hearth::cli
