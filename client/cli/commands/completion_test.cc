#include "client/cli/commands/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/cli/commands/command_tree.h"

namespace hearth::cli {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Words(const Completion& completion) {
  std::vector<std::string> words;
  for (const Candidate& candidate : completion.candidates) {
    words.push_back(candidate.word);
  }
  return words;
}

class CompletionTest : public testing::Test {
 protected:
  Completion Of(const std::vector<std::string>& words) {
    return Complete(tree_.app, words);
  }

  const CommandTree tree_;
};

TEST_F(CompletionTest, CommandsAreThoseOfTheHelp) {
  EXPECT_THAT(Words(Of({""})),
              IsSupersetOf({"train", "run", "top", "doctor", "completion"}));
  EXPECT_THAT(Words(Of({"job", "s"})),
              UnorderedElementsAre("list", "show", "watch", "logs", "cancel",
                                   "resume", "adopt", "download", "delete"));
  for (const Candidate& candidate : Of({""}).candidates) {
    EXPECT_NE(candidate.help, "") << candidate.word;
  }
}

TEST_F(CompletionTest, FlagsAreThoseOfTheCommandAndOfAll) {
  const auto train = Words(Of({"train", "--ep"}));
  EXPECT_THAT(train, IsSupersetOf({"--epochs", "--file", "--detach", "--help",
                                   "--server", "--output"}));
  EXPECT_THAT(train, Not(Contains("--once")));
  EXPECT_THAT(train, Not(Contains("--version")));
  EXPECT_THAT(Words(Of({"--"})), Contains("--version"));
  EXPECT_EQ(Of({"train", "--ep"}).typed, "--ep");
}

TEST_F(CompletionTest, ValuesAreThoseThatAreTaken) {
  EXPECT_THAT(Words(Of({"train", "--strategy", ""})),
              IsSupersetOf({"memory", "mmap", "gnndrive"}));
  EXPECT_THAT(Words(Of({"--output", ""})),
              UnorderedElementsAre("table", "json"));
  EXPECT_THAT(Words(Of({"job", "list", "--state", "r"})), Contains("running"));
  EXPECT_THAT(Words(Of({"dataset", "import", "--format", ""})),
              IsSupersetOf({"numpy", "edge-list"}));
  EXPECT_THAT(Words(Of({"completion", ""})),
              UnorderedElementsAre("bash", "zsh"));
  // Candidates are the words after the equals sign.
  const Completion joined = Of({"train", "--strategy=m"});
  EXPECT_EQ(joined.typed, "m");
  EXPECT_THAT(Words(joined), Contains("mmap"));
  // Numbers and files have no candidates.
  for (const char* flag : {"--epochs", "--file", "--staging"}) {
    const Completion free = Of({"train", flag, ""});
    EXPECT_THAT(free.candidates, IsEmpty()) << flag;
    EXPECT_EQ(free.live, LiveNames::kNone) << flag;
  }
}

TEST_F(CompletionTest, SomeNamesOnlyADaemonKnows) {
  EXPECT_EQ(Of({"train", "--dataset", "p"}).live, LiveNames::kDatasets);
  EXPECT_EQ(Of({"--context", ""}).live, LiveNames::kContexts);
  EXPECT_EQ(Of({"job", "show", ""}).live, LiveNames::kJobs);
  EXPECT_EQ(Of({"export", ""}).live, LiveNames::kJobs);
  EXPECT_EQ(Of({"evaluate", ""}).live, LiveNames::kJobs);
  EXPECT_EQ(Of({"sweep", "best", ""}).live, LiveNames::kSweeps);
  EXPECT_EQ(Of({"plan", "delete", ""}).live, LiveNames::kPlans);
  EXPECT_EQ(Of({"dataset", "uploads", "delete", ""}).live, LiveNames::kUploads);
  EXPECT_EQ(Of({"context", "use", ""}).live, LiveNames::kContexts);
  EXPECT_EQ(Of({"dataset", "export", ""}).live, LiveNames::kDatasets);
  // New names, and arguments after the last, have no live names.
  EXPECT_EQ(Of({"dataset", "import", ""}).live, LiveNames::kNone);
  EXPECT_EQ(Of({"dataset", "copy", ""}).live, LiveNames::kNone);
  EXPECT_EQ(Of({"job", "show", "train-1", ""}).live, LiveNames::kNone);
  EXPECT_EQ(Of({"job", "list", ""}).live, LiveNames::kNone);
  // Values of flags do not count as names.
  EXPECT_EQ(Of({"--server", "job", "job", "logs", "--tail", "5", ""}).live,
            LiveNames::kJobs);
}

TEST_F(CompletionTest, WhatIsWrongHasNoCompletion) {
  EXPECT_THAT(Of({"nonsense", "--x"}).candidates, Not(IsEmpty()));
  EXPECT_THAT(Words(Of({"train", "--nonsense=", ""})), IsEmpty());
  EXPECT_THAT(Of({"train", "--nonsense=x"}).candidates, IsEmpty());
}

// Expects each flag whose help has a few words to complete them.
void ExpectWords(const CLI::App& app) {
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option*) { return true; })) {
    if (absl::StrContains(option->get_type_name(), '{')) {
      EXPECT_GE(WordsOf(*option).size(), 2u)
          << app.get_name() << " " << option->get_name();
    }
  }
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_NE(command->get_description(), "") << command->get_name();
    ExpectWords(*command);
  }
}

TEST_F(CompletionTest, AllEnumsComplete) { ExpectWords(tree_.app); }

}  // namespace
}  // namespace hearth::cli
