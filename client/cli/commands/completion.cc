#include "client/cli/commands/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/views/text.h"
#include "client/server_choice.h"

namespace hearth::cli {

namespace {

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  return app.get_options([](const CLI::Option*) { return true; });
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* command) { return !command->get_group().empty(); });
}

// The command `name` below `app`; null if there is none.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : CommandsOf(app)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// The option that `flag` ("--epochs", "-f") names, of `app` or of its parents;
// null if there is none.
const CLI::Option* FindOption(const CLI::App& app, const std::string& flag) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : OptionsOf(*at)) {
      if (option->nonpositional() && option->check_name(flag)) return option;
    }
  }
  return nullptr;
}

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

LiveNames LiveNamesOf(const std::string& flag) {
  if (flag == "--dataset") return LiveNames::kDatasets;
  if (flag == "--context") return LiveNames::kContexts;
  return LiveNames::kNone;
}

// Kind of names that the first argument of a command has; kNone for commands
// that make something, whose name is new.
LiveNames LiveNamesOf(const CLI::App& command) {
  const std::string& name = command.get_name();
  const std::string& group =
      command.get_parent() == nullptr ? "" : command.get_parent()->get_name();
  if (name == "export" && group != "dataset") return LiveNames::kJobs;
  if (name == "evaluate" || group == "job") return LiveNames::kJobs;
  if (group == "sweep") return LiveNames::kSweeps;
  if (group == "plan") return LiveNames::kPlans;
  if (group == "uploads") return LiveNames::kUploads;
  if (group == "context" && name != "add") return LiveNames::kContexts;
  if (group == "dataset" && name != "import" && name != "copy" &&
      name != "generate") {
    return LiveNames::kDatasets;
  }
  return LiveNames::kNone;
}

void AddFlags(const CLI::App& app, Completion& completion) {
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : OptionsOf(*at)) {
      // A command's parents offer neither their version nor their help.
      if (at != &app &&
          (option == at->get_help_ptr() || option == at->get_version_ptr())) {
        continue;
      }
      for (const std::string& name : option->get_lnames()) {
        completion.candidates.push_back(
            {absl::StrCat("--", name), option->get_description()});
      }
    }
  }
}

void AddValues(const CLI::Option& option, Completion& completion) {
  for (std::string& word : WordsOf(option)) {
    completion.candidates.push_back({std::move(word), ""});
  }
  for (const std::string& name : option.get_lnames()) {
    completion.live = LiveNamesOf(absl::StrCat("--", name));
  }
}

// The positional argument of `command` after its first `count`; null if it
// takes no more.
const CLI::Option* NextPositional(const CLI::App& command, int count) {
  for (const CLI::Option* option : OptionsOf(command)) {
    if (!option->get_positional()) continue;
    count -= option->get_items_expected_max();
    if (count < 0) return option;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> WordsOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::vector<std::string> words;
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin);
  if (begin != std::string::npos && end != std::string::npos) {
    words = absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',');
  } else if (absl::StrContains(type, '|')) {
    words = absl::StrSplit(type.substr(0, type.find(':')), '|');
  }
  // Words with capitals ("SIZE", "NUMBER,...") are forms, not values.
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const std::string& word) {
                               return word.empty() ||
                                      std::any_of(
                                          word.begin(), word.end(),
                                          [](unsigned char c) {
                                            return absl::ascii_isupper(c);
                                          });
                             }),
              words.end());
  return words;
}

Completion Complete(const CLI::App& app,
                    const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  const CLI::Option* awaits_value = nullptr;
  int given = 0;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (awaits_value != nullptr) {
      awaits_value = nullptr;
    } else if (absl::StartsWith(word, "-") && word.size() > 1) {
      if (absl::StrContains(word, '=')) continue;
      const CLI::Option* option = FindOption(*command, word);
      if (option != nullptr && TakesValue(*option)) awaits_value = option;
    } else if (const CLI::App* next = FindCommand(*command, word)) {
      command = next;
      given = 0;
    } else {
      ++given;
    }
  }
  Completion completion;
  completion.typed = words.back();
  if (awaits_value != nullptr) {
    AddValues(*awaits_value, completion);
    return completion;
  }
  if (absl::StartsWith(completion.typed, "-")) {
    const std::vector<std::string> parts =
        absl::StrSplit(completion.typed, absl::MaxSplits('=', 1));
    if (parts.size() == 1) {
      AddFlags(*command, completion);
    } else if (const CLI::Option* option = FindOption(*command, parts[0])) {
      completion.typed = parts[1];
      AddValues(*option, completion);
    }
    return completion;
  }
  for (const CLI::App* next : CommandsOf(*command)) {
    completion.candidates.push_back(
        {next->get_name(), next->get_description()});
  }
  if (const CLI::Option* next = NextPositional(*command, given)) {
    AddValues(*next, completion);
    completion.live = LiveNamesOf(*command);
  }
  return completion;
}

// Splits words at blanks alone: bash's own splitting breaks addresses at their
// colons.
const char kBashCompletion[] =
    R"(# Completion of hearth for bash: source it, or put it where bash looks for
# completions (/usr/share/bash-completion/completions/hearth).
_hearth() {
  local line words
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:COMP_POINT-1:1} != [[:blank:]] ]] || words+=("")
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _hearth hearth
)";

const char kZshCompletion[] =
    R"(#compdef hearth
# Completion of hearth for zsh: put it, as _hearth, in a folder of $fpath
# (/usr/share/zsh/vendor-completions), or source it after compinit.
_hearth() {
  local line tab=$'\t'
  local -a candidates
  for line in "${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && candidates+=("${${line%%$tab*}//:/\\:}:${line#*$tab}")
  done
  [[ $words[CURRENT] == --*=* ]] && compset -P '*='
  if (( $#candidates )); then
    _describe hearth candidates
  else
    _files
  fi
}
if [[ $funcstack[1] == _hearth ]]; then
  _hearth "$@"
else
  compdef _hearth hearth
fi
)";

namespace {

// Deadline of a daemon while somebody waits for the completion.
constexpr absl::Duration kNamesPatience = absl::Seconds(1);

void AddContexts(std::vector<Candidate>& candidates) {
  const auto contexts = client::ReadContexts(client::ContextsPath());
  if (!contexts.ok()) return;
  for (const auto& [name, context] : contexts->by_name) {
    candidates.push_back({name, context.server});
  }
}

// Adds names that the daemon knows; none if it does not answer in time.
void AddNames(LiveNames live, client::Client& client,
              std::vector<Candidate>& candidates) {
  const auto add = [&](const auto& things, auto candidate) {
    if (!things.ok()) return;
    for (const auto& thing : *things) candidates.push_back(candidate(thing));
  };
  switch (live) {
    case LiveNames::kDatasets:
      return add(client.ListDatasets(), [](const v1::Dataset& dataset) {
        return Candidate{dataset.name(), ""};
      });
    case LiveNames::kUploads:
      return add(client.ListUploads(), [](const v1::Upload& upload) {
        return Candidate{upload.id(), upload.name()};
      });
    case LiveNames::kJobs:
      return add(client.ListJobs({}), [](const v1::Job& job) {
        return Candidate{job.id(), StateWord(job.state())};
      });
    case LiveNames::kSweeps:
      return add(client.ListSweeps(), [](const v1::Sweep& sweep) {
        return Candidate{sweep.id(), ""};
      });
    case LiveNames::kPlans:
      return add(client.ListPlans(), [](const v1::Plan& plan) {
        return Candidate{plan.name(), ""};
      });
    case LiveNames::kContexts:
      return AddContexts(candidates);
    case LiveNames::kNone:
      return;
  }
}

}  // namespace

int PrintCompletion(Completion completion, Session& session) {
  if (completion.live == LiveNames::kContexts) {
    AddContexts(completion.candidates);
  } else if (completion.live != LiveNames::kNone) {
    absl::StatusOr<client::ClientOptions> options = session.client_options();
    if (options.ok()) {
      options->call_timeout = kNamesPatience;
      options->call_attempts = 1;
      AddNames(completion.live, *client::NewClient(*options),
               completion.candidates);
    }
  }
  for (const Candidate& candidate : completion.candidates) {
    if (!absl::StartsWith(candidate.word, completion.typed)) continue;
    session.environment.out << EscapeControl(candidate.word) << "\t"
                            << EscapeControl(candidate.help) << "\n";
  }
  return kExitDone;
}

void AddCompletionCommand(CLI::App& app, Action* chosen_local) {
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print the script that completes hearth's command lines in a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "Shell: bash or zsh")
      ->required()
      ->check(OneOf(std::vector<std::string>{"bash", "zsh"}));
  command->callback([=] {
    *chosen_local = [=](Session& session) -> absl::StatusOr<int> {
      session.environment.out
          << (*shell == "zsh" ? kZshCompletion : kBashCompletion);
      return kExitDone;
    };
  });
}

}  // namespace hearth::cli
