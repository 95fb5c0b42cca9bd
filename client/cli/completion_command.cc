#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/completion.h"
#include "client/cli/escape.h"
#include "client/cli/job_words.h"
#include "client/cli/one_of.h"
#include "client/contexts.h"

namespace hearth::cli {
namespace {

// Who types does not wait for a daemon.
constexpr absl::Duration kPatience = absl::Seconds(1);

void AddContexts(std::vector<Candidate>& candidates) {
  const auto contexts = client::ReadContexts(client::ContextsPath());
  if (!contexts.ok()) return;
  for (const auto& [name, context] : contexts->by_name) {
    candidates.push_back({name, context.server});
  }
}

// The names that the daemon knows; none if it does not answer at once.
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
      options->call_timeout = kPatience;
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
