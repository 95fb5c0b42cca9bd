#ifndef HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace hearth::cli {

/// Names of things that a command line cannot know by itself.
enum class LiveNames {
  kNone,
  kDatasets,
  kUploads,
  kJobs,
  kSweeps,
  kPlans,
  kContexts,
};

/// A word that may stand where one is typed.
struct Candidate {
  std::string word = {};
  /// Meaning of the word; may be empty.
  std::string help = {};
};

/// Words that may stand where the last word of a command line is typed. With
/// neither candidates nor names, it is a file, or anything.
struct Completion {
  std::vector<Candidate> candidates = {};
  LiveNames live = LiveNames::kNone;
  /// The part of it that is typed already.
  std::string typed = {};
};

/// Completes the last of `words`, a command line of `app` without its name:
/// commands, flags, and values of flags that have only some, all of the
/// descriptions that make the help. REQUIRES: words is not empty.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words);

/// The values that `option` may have; empty if they are not a few words.
std::vector<std::string> WordsOf(const CLI::Option& option);

/// The scripts by which shells ask `hearth completion words`.
extern const char kBashCompletion[];
extern const char kZshCompletion[];

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_
