#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/job_run.h"
#include "client/cli/job_view.h"
#include "client/cli/job_words.h"
#include "client/cli/one_of.h"
#include "client/proto_json.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

absl::StatusOr<int> List(const std::vector<std::string>& state_words,
                         Session& session) {
  std::vector<v1::JobState> states;
  for (const std::string& word : state_words) {
    // The parser took only words that are states.
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    v1::JobState_Parse(absl::AsciiStrToUpper(word), &state);
    states.push_back(state);
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                          session.client.ListJobs(states));
  if (session.output == Output::kTable) {
    PrintJobList(jobs, session.environment.out);
    return kExitDone;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::Job& job : jobs) list.push_back(client::JobToJson(job));
  PrintJson({{"jobs", list}}, session);
  return kExitDone;
}

void ShowJob(const v1::Job& job, Session& session) {
  if (session.output == Output::kJson) {
    PrintJson(client::JobToJson(job), session);
  } else {
    PrintJob(job, session.environment.out);
  }
}

absl::StatusOr<int> Show(const std::string& id, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, session.client.GetJob(id));
  ShowJob(job, session);
  return kExitDone;
}

absl::StatusOr<int> Watch(const std::string& id, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, session.client.GetJob(id));
  return FollowJob(session, job);
}

// Hands `show` all events up to the newest there is at the start.
absl::Status ShowLog(const std::string& id,
                     const std::function<void(const v1::JobEvent&)>& show,
                     Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, session.client.GetJob(id));
  if (job.last_sequence() == 0) return absl::OkStatus();
  return session.client.WatchJob(
      id, 1,
      [&](const v1::JobEvent& event) {
        show(event);
        return event.sequence() < job.last_sequence();
      },
      std::stop_token());
}

// The log so far, states and epochs included: up to the newest event there is
// at the start. `tail`: the last lines alone, so many; 0 = all.
absl::StatusOr<int> Logs(const std::string& id, uint32_t tail,
                         Session& session) {
  auto lines = nlohmann::ordered_json::array();
  const auto show = [&](const v1::JobEvent& event) {
    const std::optional<v1::LogLine> log = LogLineOf(event);
    if (log && session.output == Output::kTable) {
      session.environment.out << FormatTimestamp(event.time()) << "  "
                              << LogText(*log) << "\n";
    } else if (log) {
      auto line = client::ToJson(*log);
      line["time"] = client::ToJson(event.time());
      lines.push_back(line);
    }
  };
  if (tail > 0) {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::JobEvent> events,
                            session.client.TailJob(id, tail));
    for (const v1::JobEvent& event : events) show(event);
  } else {
    HEARTH_RETURN_IF_ERROR(ShowLog(id, show, session));
  }
  if (session.output == Output::kJson) {
    PrintJson({{"id", id}, {"lines", lines}}, session);
  }
  return kExitDone;
}

absl::StatusOr<int> Cancel(const std::string& id, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, session.client.CancelJob(id));
  if (session.output == Output::kJson) {
    PrintJson(client::JobToJson(job), session);
  } else if (client::HasEnded(job.state())) {
    session.environment.out << EscapeControl(id) << " is "
                            << StateWord(job.state()) << "\n";
  } else {
    session.environment.out << EscapeControl(id)
                            << " will stop at the next batch\n";
  }
  return kExitDone;
}

absl::StatusOr<int> Delete(const std::string& id, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeleteJob(id));
  if (session.output == Output::kJson) {
    PrintJson({{"deleted", id}}, session);
  } else {
    session.environment.out << "deleted " << EscapeControl(id) << "\n";
  }
  return kExitDone;
}

using JobAction = absl::StatusOr<int> (*)(const std::string&, Session&);

void AddWithId(CLI::App& jobs, const char* name, const char* help,
               JobAction action, Action* chosen) {
  const auto id = std::make_shared<std::string>();
  CLI::App* command = jobs.add_subcommand(name, help);
  command->add_option("ID", *id, "The job's id")->required();
  command->callback([=] {
    *chosen = [=](Session& session) { return action(*id, session); };
  });
}

void AddLogsCommand(CLI::App& jobs, Action* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto tail = std::make_shared<uint32_t>(0);
  CLI::App* command = jobs.add_subcommand("logs", "A job's log so far");
  command->add_option("ID", *id, "The job's id")->required();
  command
      ->add_option("--tail", *tail, "Number of last lines to print, 1 to 1000")
      ->check(CLI::Range(1, 1000));
  command->callback([=] {
    *chosen = [=](Session& session) { return Logs(*id, *tail, session); };
  });
}

}  // namespace

void AddJobCommands(CLI::App& app, Action* chosen) {
  CLI::App* jobs = app.add_subcommand("job", "The daemon's jobs");
  jobs->require_subcommand(1);
  const auto states = std::make_shared<std::vector<std::string>>();
  CLI::App* list = jobs->add_subcommand("list", "All jobs, newest first");
  list->add_option("--state", *states, "Only jobs in these states")
      ->delimiter(',')
      ->check(OneOf(std::vector<std::string>{"queued", "preparing", "running",
                                             "waiting", "succeeded", "failed",
                                             "cancelled"}))
      ->transform(
          [](const std::string& word) { return absl::AsciiStrToLower(word); });
  list->callback([=] {
    *chosen = [=](Session& session) { return List(*states, session); };
  });
  AddWithId(*jobs, "show", "One job: its options, state and report", Show,
            chosen);
  AddWithId(*jobs, "watch", "Follow a job to its end", Watch, chosen);
  AddLogsCommand(*jobs, chosen);
  AddWithId(*jobs, "cancel", "Stop a job at its next batch", Cancel, chosen);
  AddResumeCommand(*jobs, chosen);
  AddDownloadCommand(*jobs, chosen);
  AddWithId(*jobs, "delete",
            "Delete a job that has ended, with its model and checkpoints",
            Delete, chosen);
}

}  // namespace hearth::cli
