#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/options/job_options.h"
#include "client/cli/views/job_view.h"
#include "client/cli/views/text.h"
#include "client/proto_json.h"
#include "client/transfer.h"
#include "engine/base/status.h"

namespace hearth::cli {

namespace {

absl::StatusOr<int> List(const std::vector<std::string>& state_words,
                         Session& session) {
  std::vector<v1::JobState> states;
  for (const std::string& word : state_words) {
    // The parser accepts only words that are states.
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

// Hands all events that the job has now to `show`.
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

// Prints the log so far, with states and epochs. `tail`: number of last lines;
// 0 = all.
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
  return PrintDeleted(id, session);
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
  AddAdoptCommand(*jobs, chosen);
  AddDownloadCommand(*jobs, chosen);
  AddWithId(*jobs, "delete",
            "Delete a job that has ended, with its model and checkpoints",
            Delete, chosen);
}

namespace {

struct AdoptArguments {
  std::string id;
  bool has_ended = false;
  bool detach = false;
};

absl::StatusOr<int> Adopt(const AdoptArguments& arguments, Session& session) {
  if (!arguments.has_ended) {
    return absl::InvalidArgumentError(
        "--leader-has-ended: say so, if the machine that led the job will not "
        "come back. If it does nevertheless, its job fails there");
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::Job adopted,
                          session.client.AdoptJob(arguments.id));
  return FollowOrDetach(session, adopted, arguments.detach);
}

}  // namespace

void AddAdoptCommand(CLI::App& jobs, Action* chosen) {
  CLI::App* command = jobs.add_subcommand(
      "adopt",
      "Go on here with a job of several machines whose leader is gone for "
      "good, "
      "from the checkpoint that this machine's part (rank-N) has kept, on the "
      "machines that are left");
  const auto arguments = std::make_shared<AdoptArguments>();
  command->add_option("ID", arguments->id, "The part's id")->required();
  command->add_flag("--leader-has-ended", arguments->has_ended,
                    "The leader will not come back");
  command->add_flag("--detach", arguments->detach,
                    "Print the new job's id and do not wait for its end");
  command->callback([=] {
    *chosen = [=](Session& session) { return Adopt(*arguments, session); };
  });
}

namespace {

struct ResumeArguments {
  std::string id;
  OptionArguments options;
  bool detach = false;
};

absl::StatusOr<int> Resume(const ResumeArguments& arguments, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          session.client.GetJob(arguments.id));
  v1::JobSpec spec = job.spec();
  HEARTH_RETURN_IF_ERROR(ChangeOptions(arguments.options.values, spec));
  HEARTH_ASSIGN_OR_RETURN(const v1::Job resumed,
                          session.client.ResumeJob(arguments.id, spec));
  return FollowOrDetach(session, resumed, arguments.detach);
}

}  // namespace

void AddResumeCommand(CLI::App& jobs, Action* chosen) {
  CLI::App* command =
      jobs.add_subcommand("resume",
                          "Go on with a job that failed or was cancelled, from "
                          "its last checkpoint");
  const auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("ID", arguments->id, "The job's id")->required();
  command->add_flag("--detach", arguments->detach,
                    "Print the job's id and do not wait for its end");
  const std::function<void()> take = AddOptionFlags(
      *command, ResumeFlags(), arguments->options,
      [](const Flag& flag) {
        return absl::StrCat(flag.Help(), " (default: as it was)");
      },
      [](const Flag&) {
        return "Options that may change; none changes the result";
      });
  command->callback([=] {
    take();
    *chosen = [=](Session& session) { return Resume(*arguments, session); };
  });
}

namespace {

struct DownloadArguments {
  std::string job;
  std::string path;
  bool force = false;
};

absl::StatusOr<int> Download(const DownloadArguments& arguments,
                             Session& session) {
  Environment& environment = session.environment;
  const std::string path = AbsolutePath(arguments.path, session);
  const std::stop_token interrupted = environment.catch_interrupts();
  TransferProgress progress(session);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<client::ModelFolder> folder,
      client::ModelFolder::Open(path, arguments.force,
                                [&progress](uint64_t done, uint64_t total) {
                                  progress.Show("downloading", done, total);
                                }));
  const absl::Status downloaded =
      session.client.DownloadModel(arguments.job, *folder, interrupted);
  progress.Clear();
  if (interrupted.stop_requested()) {
    environment.err << "what has come stays in " << EscapeControl(path)
                    << ".part: the same command goes on from there\n";
    return kExitInterrupted;
  }
  HEARTH_RETURN_IF_ERROR(downloaded);
  HEARTH_RETURN_IF_ERROR(folder->Finish());
  if (session.output == Output::kJson) {
    PrintJson({{"job", arguments.job}, {"path", path}}, session);
  } else {
    environment.out << "model: " << EscapeControl(path) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddDownloadCommand(CLI::App& jobs, Action* chosen) {
  CLI::App* command = jobs.add_subcommand(
      "download",
      "Bring a job's model as model.safetensors and config.json to a new "
      "folder on this machine");
  const auto arguments = std::make_shared<DownloadArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  command
      ->add_option("--to", arguments->path,
                   "New folder on this machine; until the model is complete it "
                   "is named PATH.part, and an interrupted download goes on "
                   "from there")
      ->required();
  command->add_flag("--force", arguments->force,
                    "Replace the model that is in the folder");
  command->callback([=] {
    *chosen = [=](Session& session) { return Download(*arguments, session); };
  });
}

namespace {

struct EvaluateArguments {
  std::string job;
  Submission submission;
};

absl::StatusOr<int> Evaluate(const EvaluateArguments& arguments,
                             Session& session) {
  v1::JobSpec spec;
  spec.mutable_evaluate()->set_job_id(arguments.job);
  return RunJob(session, spec, arguments.submission);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "evaluate", "Evaluate a job's model on the test nodes, without training");
  const auto arguments = std::make_shared<EvaluateArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  AddSubmissionFlags(*command, arguments->submission);
  command->callback([=] {
    *chosen = [=](Session& session) { return Evaluate(*arguments, session); };
  });
}

namespace {

struct ExportArguments {
  std::string job;
  std::string destination;
  Submission submission;
};

absl::StatusOr<int> Export(const ExportArguments& arguments, Session& session) {
  v1::JobSpec spec;
  spec.mutable_export_()->set_job_id(arguments.job);
  spec.mutable_export_()->set_destination(
      AbsolutePath(arguments.destination, session));
  return RunJob(session, spec, arguments.submission);
}

}  // namespace

void AddExportCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "export",
      "Write a job's model as model.safetensors and config.json to a new "
      "folder on the daemon's machine");
  const auto arguments = std::make_shared<ExportArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  command
      ->add_option("--to", arguments->destination,
                   "New folder on the daemon's machine")
      ->required();
  AddSubmissionFlags(*command, arguments->submission);
  command->callback([=] {
    *chosen = [=](Session& session) { return Export(*arguments, session); };
  });
}

}  // namespace hearth::cli
