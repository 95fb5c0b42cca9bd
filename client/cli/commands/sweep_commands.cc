#include <CLI/CLI.hpp>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/options/job_options.h"
#include "client/cli/options/option_values.h"
#include "client/cli/options/sweep_options.h"
#include "client/cli/views/sweep_view.h"
#include "client/cli/views/text.h"
#include "client/proto_json.h"
#include "engine/base/status.h"

namespace hearth::cli {
namespace {

// Best trials in the live table, which also has all running ones.
constexpr size_t kLiveTrials = 20;
constexpr absl::Duration kLiveInterval = absl::Milliseconds(500);

struct SubmitArguments {
  OptionArguments options;
  // Values of --space.
  std::vector<std::string> spaces;
  std::string file;
  Submission submission;
};

std::string WatchCommand(const Session& session, const std::string& id) {
  return absl::StrCat("hearth", session.server_flag, " sweep watch ",
                      EscapeControl(id));
}

absl::StatusOr<SweepHistory> HistoryOf(const v1::Sweep& sweep,
                                       Session& session) {
  SweepHistory history;
  if (sweep.last_sequence() == 0) return history;
  HEARTH_RETURN_IF_ERROR(session.client.WatchSweep(
      sweep.id(), 1,
      [&](const v1::SweepEvent& event) {
        history.Add(event);
        return event.sequence() < sweep.last_sequence();
      },
      std::stop_token()));
  return history;
}

absl::Status PrintWhole(const v1::Sweep& sweep, const SweepHistory& history,
                        const std::string& csv, Session& session) {
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(sweep), session);
  } else {
    PrintSweep(sweep, history, session.environment.out);
  }
  if (csv.empty()) return absl::OkStatus();
  std::ofstream file(AbsolutePath(csv, session));
  WriteCsv(sweep, history, file);
  if (file.flush()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(csv, ": cannot be written"));
}

// Shows a running sweep: on a terminal a table that is redrawn, else a line for
// each trial that ends.
class SweepDisplay {
 public:
  SweepDisplay(const std::string& id, Session& session)
      : id_(id), session_(session) {}

  void Show(const v1::SweepEvent& event) {
    history_.Add(event);
    if (session_.environment.err_is_terminal) {
      const absl::Time now = absl::Now();
      if (now - drawn_ < kLiveInterval) return;
      drawn_ = now;
      Draw();
    } else if (session_.output == Output::kTable) {
      for (const std::string& line : log_.Take(event)) {
        session_.environment.err << line << std::endl;
      }
    }
  }

  // Erases the table.
  void Clear() {
    if (lines_ == 0) return;
    session_.environment.err << "\x1b[" << lines_ << "A\x1b[J";
    lines_ = 0;
  }

  const SweepHistory& history() const { return history_; }

 private:
  void Draw() {
    const absl::StatusOr<v1::Sweep> sweep = session_.client.GetSweep(id_);
    // The watch reports a daemon that is away.
    if (!sweep.ok()) return;
    std::ostringstream text;
    PrintSweep(*sweep, history_, text, kLiveTrials);
    Clear();
    std::istringstream lines(text.str());
    const auto width = static_cast<size_t>(session_.environment.columns());
    for (std::string line; std::getline(lines, line); ++lines_) {
      session_.environment.err << FirstCharacters(line, width) << "\n";
    }
    session_.environment.err.flush();
  }

  const std::string id_;
  Session& session_;
  SweepHistory history_;
  SweepLog log_;
  absl::Time drawn_ = absl::InfinitePast();
  int lines_ = 0;
};

absl::StatusOr<int> Follow(const std::string& id, const std::string& csv,
                           Session& session) {
  Environment& environment = session.environment;
  const std::stop_token interrupted = environment.catch_interrupts();
  SweepDisplay display(id, session);
  const absl::Status watched = session.client.WatchSweep(
      id, 1,
      [&display](const v1::SweepEvent& event) {
        display.Show(event);
        return true;
      },
      interrupted);
  display.Clear();
  if (interrupted.stop_requested()) {
    environment.err << EscapeControl(id) << " goes on. Come back to it with: "
                    << WatchCommand(session, id) << "\n";
    return kExitInterrupted;
  }
  if (!watched.ok()) {
    return Annotate(watched, absl::StrCat("watching ", id, " (again: ",
                                          WatchCommand(session, id), ")"));
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, session.client.GetSweep(id));
  HEARTH_RETURN_IF_ERROR(PrintWhole(sweep, display.history(), csv, session));
  return sweep.state() == v1::SWEEP_DONE ? kExitDone : kExitFailed;
}

absl::StatusOr<v1::Sweep> SubmitSpec(const SubmitArguments& arguments,
                                     Session& session) {
  OptionValues values = arguments.options.values;
  for (const std::string& space : arguments.spaces) {
    HEARTH_RETURN_IF_ERROR(AddSpace(space, values));
  }
  if (!arguments.file.empty()) {
    std::vector<std::string> known;
    for (const Flag& flag : SweepFlags()) known.push_back(flag.name);
    HEARTH_ASSIGN_OR_RETURN(OptionValues from_file,
                            ReadYamlOptions(arguments.file, known, {"space"}));
    values = MergeOptions(std::move(values), std::move(from_file));
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::SweepSpec spec, SweepFromOptions(values));
  absl::StatusOr<v1::Sweep> sweep =
      session.client.SubmitSweep(spec, arguments.submission.priority);
  if (sweep.ok()) return sweep;
  // The daemon's message names fields instead of flags.
  return WithMessage(sweep.status(),
                     NameSweepFlags(sweep.status().message(), spec, values));
}

absl::StatusOr<int> Submit(const SubmitArguments& arguments, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                          SubmitSpec(arguments, session));
  if (sweep.spec().every_point() && session.output == Output::kTable) {
    session.environment.err << EveryPointLine(sweep.spec()) << "\n";
  }
  if (!arguments.submission.detach) {
    if (session.output == Output::kTable) {
      session.environment.err << EscapeControl(sweep.id()) << "\n";
    }
    return Follow(sweep.id(), "", session);
  }
  if (session.output == Output::kJson) {
    PrintJson({{"id", sweep.id()}}, session);
  } else {
    session.environment.out << EscapeControl(sweep.id()) << "\n";
    session.environment.err
        << "watch it with: " << WatchCommand(session, sweep.id()) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Sweep> sweeps,
                          session.client.ListSweeps());
  if (session.output == Output::kTable) {
    PrintSweepList(sweeps, session.environment.out);
    return kExitDone;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::Sweep& sweep : sweeps) list.push_back(client::ToJson(sweep));
  PrintJson({{"sweeps", list}}, session);
  return kExitDone;
}

absl::StatusOr<int> Show(const std::string& id, const std::string& csv,
                         Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, session.client.GetSweep(id));
  HEARTH_ASSIGN_OR_RETURN(const SweepHistory history,
                          HistoryOf(sweep, session));
  HEARTH_RETURN_IF_ERROR(PrintWhole(sweep, history, csv, session));
  return kExitDone;
}

absl::StatusOr<int> Best(const std::string& id, const std::string& destination,
                         Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, session.client.GetSweep(id));
  if (sweep.best_trial() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(id, " has no trial with a result"));
  }
  const v1::Trial& trial =
      sweep.trials(static_cast<int>(sweep.best_trial()) - 1);
  if (destination.empty()) {
    if (session.output == Output::kJson) {
      PrintJson(client::ToJson(trial), session);
    } else {
      PrintTrial(sweep, trial, session.environment.out);
    }
    return kExitDone;
  }
  if (session.output == Output::kTable) {
    PrintTrial(sweep, trial, session.environment.out);
  }
  v1::JobSpec spec;
  spec.mutable_export_()->set_job_id(trial.best_job());
  spec.mutable_export_()->set_destination(AbsolutePath(destination, session));
  return RunJob(session, spec, Submission());
}

// Prints the sweep that a command has changed.
absl::StatusOr<int> PrintChanged(const absl::StatusOr<v1::Sweep>& sweep,
                                 Session& session) {
  HEARTH_RETURN_IF_ERROR(sweep.status());
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(*sweep), session);
  } else {
    session.environment.out << EscapeControl(sweep->id()) << " is "
                            << StateWord(sweep->state()) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> Stop(const std::string& id, uint32_t trial,
                         Session& session) {
  return PrintChanged(trial > 0 ? session.client.StopTrial(id, trial)
                                : session.client.StopSweep(id),
                      session);
}

absl::StatusOr<int> Add(const std::string& id,
                        const std::vector<std::string>& settings,
                        Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, session.client.GetSweep(id));
  v1::AddTrialRequest request;
  request.set_id(id);
  request.set_number(static_cast<uint32_t>(sweep.trials_size()) + 1);
  for (const std::string& text : settings) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is not NAME=VALUE"));
    }
    v1::TrialSetting& setting = *request.add_parameters();
    setting.set_name(text.substr(0, equals));
    setting.set_value(text.substr(equals + 1));
  }
  const absl::StatusOr<v1::Sweep> added = session.client.AddTrial(request);
  if (added.ok() && session.output == Output::kTable &&
      !added->trials().empty() && added->trials().rbegin()->same_as() > 0) {
    session.environment.err << "trial " << added->trials().rbegin()->number()
                            << " is the same as trial "
                            << added->trials().rbegin()->same_as()
                            << " and takes its result\n";
  }
  return PrintChanged(added, session);
}

absl::StatusOr<int> Delete(const std::string& id, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeleteSweep(id));
  return PrintDeleted(id, session);
}

void AddSubmit(CLI::App& sweeps, Action* chosen) {
  CLI::App* command = sweeps.add_subcommand(
      "submit", "Begin a search for the best of many models");
  const auto arguments = std::make_shared<SubmitArguments>();
  command->add_option("-f,--file", arguments->file,
                      "YAML file with any of these options; flags win");
  command
      ->add_option("--space", arguments->spaces,
                   "An option of the job and the values to search: "
                   "lr=log:1e-4:1e-1, dropout=uniform:0:0.5, "
                   "hidden=int:32:256, model=sage,gcn, fanouts=10,10|5,5; "
                   ":STEPS after a range for a grid. Repeatable")
      ->type_name("NAME=VALUES")
      ->take_all();
  AddSubmissionFlags(*command, arguments->submission);
  const std::function<void()> take =
      AddOptionFlags(*command, SweepFlags(), arguments->options);
  command->callback([=] {
    take();
    *chosen = [=](Session& session) { return Submit(*arguments, session); };
  });
}

CLI::App* AddWithId(CLI::App& sweeps, const char* name, const char* help,
                    std::string& id) {
  CLI::App* command = sweeps.add_subcommand(name, help);
  command->add_option("ID", id, "The sweep's id")->required();
  return command;
}

// Adds a command with the argument ID and a text flag.
void AddWithText(CLI::App& sweeps, const char* name, const char* help,
                 const char* flag, const char* flag_help,
                 absl::StatusOr<int> (*act)(const std::string&,
                                            const std::string&, Session&),
                 Action* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto text = std::make_shared<std::string>();
  CLI::App* command = AddWithId(sweeps, name, help, *id);
  command->add_option(flag, *text, flag_help)->take_last();
  command->callback([=] {
    *chosen = [=](Session& session) { return act(*id, *text, session); };
  });
}

void AddChange(
    CLI::App& sweeps, const char* name, const char* help,
    absl::StatusOr<v1::Sweep> (client::Client::*call)(const std::string&),
    Action* chosen) {
  const auto id = std::make_shared<std::string>();
  AddWithId(sweeps, name, help, *id)->callback([=] {
    *chosen = [=](Session& session) {
      return PrintChanged((session.client.*call)(*id), session);
    };
  });
}

void AddStop(CLI::App& sweeps, Action* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto trial = std::make_shared<uint32_t>(0);
  CLI::App* command =
      AddWithId(sweeps, "stop", "End a sweep and cancel its jobs", *id);
  command
      ->add_option("--trial", *trial,
                   "Stop only this trial, and the trials that take its result")
      ->check(CLI::PositiveNumber);
  command->callback([=] {
    *chosen = [=](Session& session) { return Stop(*id, *trial, session); };
  });
}

void AddAdd(CLI::App& sweeps, Action* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto settings = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      AddWithId(sweeps, "add", "Add a trial to a sweep that runs", *id);
  command->add_option("SETTINGS", *settings,
                      "Options of the trial, as NAME=VALUE");
  command->callback([=] {
    *chosen = [=](Session& session) { return Add(*id, *settings, session); };
  });
}

}  // namespace

void AddSweepCommands(CLI::App& app, Action* chosen) {
  CLI::App* sweeps =
      app.add_subcommand("sweep", "Searches for the best of many models");
  sweeps->require_subcommand(1);
  AddSubmit(*sweeps, chosen);
  sweeps->add_subcommand("list", "All sweeps, newest first")->callback([=] {
    *chosen = List;
  });
  constexpr char kCsvHelp[] = "Write all epochs of all trials to this new file";
  AddWithText(*sweeps, "show", "One sweep with its trials", "--csv", kCsvHelp,
              Show, chosen);
  AddWithText(*sweeps, "watch", "Follow a sweep to its end", "--csv", kCsvHelp,
              Follow, chosen);
  AddWithText(*sweeps, "best", "The best trial of a sweep so far", "--export",
              "Write its model to this folder, which must not exist yet, on "
              "the daemon's machine",
              Best, chosen);
  AddChange(*sweeps, "pause",
            "Interrupt the jobs of a sweep and start no others",
            &client::Client::PauseSweep, chosen);
  AddChange(*sweeps, "resume", "Let a paused sweep go on",
            &client::Client::ResumeSweep, chosen);
  AddStop(*sweeps, chosen);
  AddAdd(*sweeps, chosen);
  const auto id = std::make_shared<std::string>();
  AddWithId(*sweeps, "delete",
            "Delete a sweep that has ended, with its jobs and models", *id)
      ->callback([=] {
        *chosen = [=](Session& session) { return Delete(*id, session); };
      });
}

}  // namespace hearth::cli
