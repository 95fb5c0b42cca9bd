#ifndef HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <string>
#include <vector>

/// Completion of command lines in a shell, from the same descriptions as the
/// help.

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hearth::cli {

struct Session;

/// Kinds of names that only the daemon, or a file of the user, knows.
enum class LiveNames {
  kNone,
  kDatasets,
  kUploads,
  kJobs,
  kSweeps,
  kPlans,
  kContexts,
};

/// A word that may stand at the place of the typed one.
struct Candidate {
  std::string word = {};
  /// Meaning of the word; may be empty.
  std::string help = {};
};

/// Words that may stand at the place of a command line's last word. With
/// neither candidates nor live names, any word or file may.
struct Completion {
  std::vector<Candidate> candidates = {};
  LiveNames live = LiveNames::kNone;
  /// Typed beginning of the word.
  std::string typed = {};
};

/// Completes the last of `words`, a command line of `app` without the program's
/// name: commands, flags, and the values of flags that have few. REQUIRES:
/// `words` is not empty.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words);

/// Values that `option` may have; empty unless they are a few words.
std::vector<std::string> WordsOf(const CLI::Option& option);

/// Prints the candidates of `completion`, with the live names that it asks for,
/// as lines of a word, a tab and its meaning. Returns the exit code.
int PrintCompletion(Completion completion, Session& session);

/// Scripts with which shells call `hearth completion words`.
extern const char kBashCompletion[];
extern const char kZshCompletion[];

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_COMPLETION_H_
