#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/table.h"
#include "client/doctor/checks.h"
#include "client/doctor/disk_speed.h"
#include "client/doctor/machine_facts.h"
#include "client/server_choice.h"
#include "client/tls_refusal.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/version.h"

namespace hearth::cli {
namespace {

using doctor::Finding;
using doctor::Severity;

constexpr absl::Duration kPatience = absl::Seconds(2);

const char* Word(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kNote:
      return "note";
    case Severity::kProblem:
      return "problem";
  }
  return "";
}

void Append(std::vector<Finding> more, std::vector<Finding>& findings) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

// Asks the daemon that the options mean about itself.
absl::StatusOr<doctor::DaemonAnswer> AskDaemon(
    absl::StatusOr<client::ClientOptions> options) {
  HEARTH_RETURN_IF_ERROR(options.status());
  options->call_timeout = kPatience;
  options->call_attempts = 1;
  doctor::DaemonAnswer answer;
  answer.asked = Clock::Real().Now();
  HEARTH_ASSIGN_OR_RETURN(answer.status,
                          client::NewClient(*options)->GetStatus());
  answer.answered = Clock::Real().Now();
  return answer;
}

// The finding about a daemon that did not answer: start it, or reach it
// otherwise.
Finding NoAnswer(const absl::Status& status, bool was_named,
                 const absl::StatusOr<client::ClientOptions>& options) {
  if (options.ok() && client::IsUnreachable(status)) {
    const std::string refusal = client::WhyTlsIsRefused(*options);
    if (!refusal.empty()) {
      return {.severity = Severity::kProblem,
              .check = "daemon",
              .value = absl::StrCat(options->server, ": TLS was refused"),
              .remedy = refusal};
    }
  }
  return {.severity = was_named || !client::IsUnreachable(status)
                          ? Severity::kProblem
                          : Severity::kNote,
          .check = "daemon",
          .value = std::string(status.message()),
          .remedy = client::IsUnreachable(status)
                        ? "hearthd --data-dir DIR, or hearth --server ADDRESS"
                        : ""};
}

std::vector<Finding> CheckSpeed(const std::string& data_dir, uint32_t jobs) {
  if (jobs > 0) {
    return {{.severity = Severity::kNote,
             .check = "disk speed",
             .value = absl::StrCat("not measured while ",
                                   jobs == 1 ? "a job runs" : "jobs run"),
             .remedy = ""}};
  }
  // Where it is not there yet, on the disk that it will be on.
  std::filesystem::path folder = data_dir;
  std::error_code error;
  while (!std::filesystem::exists(folder, error) &&
         folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return doctor::CheckDisk(doctor::MeasureDisk(folder.string()));
}

std::vector<Finding> Examine(const std::string& data_dir, Session& session) {
  const Clock& clock = Clock::Real();
  doctor::ClockReadings readings = {.first_wall = clock.Now(),
                                    .first_steady = clock.SteadySeconds()};
  const doctor::KernelFolders folders;
  const absl::StatusOr<client::ClientOptions> options =
      session.client_options();
  const absl::StatusOr<doctor::DaemonAnswer> answer = AskDaemon(options);
  const bool is_here =
      answer.ok() && client::IsLocal(options->server) &&
      doctor::IsProcess(folders, static_cast<pid_t>(answer->status.pid()),
                        "hearthd");
  const doctor::MachineFacts facts = doctor::ReadMachineFacts(
      folders, is_here ? static_cast<pid_t>(answer->status.pid()) : 0);

  std::vector<Finding> findings;
  if (answer.ok()) {
    Append(doctor::CheckDaemon(*answer, is_here ? &facts : nullptr), findings);
  } else {
    findings.push_back(
        {.check = "versions", .value = absl::StrCat("hearth ", kVersion)});
    findings.push_back(
        NoAnswer(answer.status(), !session.server_flag.empty(), options));
  }
  Append(doctor::CheckMachine(facts, is_here ? "hearthd" : "a process here"),
         findings);
  std::string folder = data_dir;
  if (folder.empty() && is_here) folder = answer->status.data_dir();
  if (folder.empty()) folder = client::DefaultDataDir();
  const doctor::FolderFacts folder_facts =
      doctor::ReadFolderFacts(folders, folder);
  const bool is_daemons = is_here && folder == answer->status.data_dir();
  // The daemon has looked at a folder of its own itself.
  Append(doctor::CheckFolder(folder_facts,
                             is_daemons ? folder_facts.owner : geteuid()),
         findings);
  findings.push_back(
      doctor::CheckSocket(doctor::ReadSocketFacts(folder), is_daemons));
  Append(CheckSpeed(folder, answer.ok() ? answer->status.jobs_running() : 0),
         findings);
  readings.last_wall = clock.Now();
  readings.last_steady = clock.SteadySeconds();
  findings.push_back(doctor::CheckClock(facts, readings));
  return findings;
}

void PrintFindings(const std::vector<Finding>& findings, std::ostream& out) {
  Table table({{""}, {""}, {""}});
  for (const Finding& finding : findings) {
    table.AddRow({Word(finding.severity), finding.check, finding.value});
    if (!finding.remedy.empty()) {
      table.AddRow({"", "", absl::StrCat("-> ", finding.remedy)});
    }
  }
  table.Print(out);
}

absl::StatusOr<int> Doctor(const std::string& data_dir, Session& session) {
  const std::vector<Finding> findings =
      Examine(data_dir.empty() ? "" : AbsolutePath(data_dir, session), session);
  const bool is_well = std::none_of(
      findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.severity == Severity::kProblem;
      });
  if (session.output == Output::kTable) {
    PrintFindings(findings, session.environment.out);
  } else {
    auto list = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"severity", Word(finding.severity)},
                      {"check", finding.check},
                      {"value", finding.value},
                      {"remedy", finding.remedy}});
    }
    PrintJson({{"ok", is_well}, {"findings", list}}, session);
  }
  return is_well ? kExitDone : kExitFailed;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this machine and its daemon for faults and bottlenecks");
  const auto data_dir = std::make_shared<std::string>();
  command->add_option(
      "--data-dir", *data_dir,
      "Data directory to check; default the data directory of a "
      "daemon on this machine, else $HEARTH_HOME, else "
      "~/.hearth");
  command->callback([=] {
    *chosen = [=](Session& session) { return Doctor(*data_dir, session); };
  });
}

}  // namespace hearth::cli
