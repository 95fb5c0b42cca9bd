#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/views/terminal.h"
#include "client/cli/views/text.h"
#include "client/cli/views/top_view.h"
#include "client/doctor/checks.h"
#include "client/doctor/machine_facts.h"
#include "client/proto_json.h"
#include "client/server_choice.h"
#include "client/tls.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/version.h"

namespace hearth::cli {

namespace {

absl::StatusOr<int> ShowStatus(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Status status, session.client.GetStatus());
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(status), session);
    return kExitDone;
  }
  Table table({{""}, {""}});
  table.AddRow({"version", status.version()});
  table.AddRow({"pid", absl::StrCat(status.pid())});
  table.AddRow({"started", FormatTimestamp(status.start_time())});
  table.AddRow({"data directory", status.data_dir()});
  if (!status.caller().empty()) {
    table.AddRow({"you are", absl::StrCat(status.caller(), ", ",
                                          EnumWord(status.caller_role()))});
  }
  table.AddRow({"metrics", status.metrics_address().empty()
                               ? "off"
                               : status.metrics_address()});
  table.AddRow({"takes new jobs", status.draining() ? "no" : "yes"});
  table.AddRow({"jobs queued", absl::StrCat(status.jobs_queued())});
  table.AddRow({"jobs waiting", absl::StrCat(status.jobs_waiting())});
  table.AddRow({"jobs running",
                absl::StrCat(status.jobs_running(), " (at most ",
                             status.max_running_jobs(), " of training and ",
                             status.max_short_jobs(), " others)")});
  table.AddRow({"datasets", absl::StrCat(status.datasets())});
  table.AddRow({"memory", FormatByteSize(status.memory_bytes())});
  table.AddRow(
      {"memory of jobs",
       absl::StrCat(FormatByteSize(status.memory_reserved_bytes()),
                    " reserved, ", FormatByteSize(status.memory_warm_bytes()),
                    " kept warm, of ",
                    FormatByteSize(status.memory_limit_bytes()))});
  table.AddRow(
      {"plans", status.plan_limit_bytes() == 0
                    ? FormatByteSize(status.plan_bytes())
                    : absl::StrCat(FormatByteSize(status.plan_bytes()), " of ",
                                   FormatByteSize(status.plan_limit_bytes()))});
  table.AddRow({"disk free", FormatByteSize(status.disk_free_bytes())});
  for (const v1::DataDisk& disk : status.data_disks()) {
    table.AddRow({"data disk",
                  absl::StrCat(disk.folder(), ", plans ",
                               FormatByteSize(disk.plan_bytes()), ", ",
                               FormatByteSize(disk.free_bytes()), " free")});
  }
  table.AddRow(
      {"reads by", absl::StrCat(status.read_queues(), ", ",
                                status.reads_in_flight(), " in flight")});
  table.AddRow({"devices", absl::StrJoin(status.devices(), ", ")});
  table.Print(session.environment.out);
  for (const std::string& warning : status.warnings()) {
    session.environment.out << "warning: " << EscapeControl(warning) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Action* chosen) {
  app.add_subcommand("status", "Version, jobs, memory and disk of the daemon")
      ->callback([=] { *chosen = ShowStatus; });
}

namespace {

// Seconds by which a member's clock is ahead of this daemon's, less half of the
// round trip; "-" without an answer.
std::string ClockOf(const v1::Member& member, const v1::Member& self) {
  if (!member.has_state()) return "-";
  const double ahead =
      Seconds(member.state().time()) - Seconds(self.state().time());
  return absl::StrFormat("%+.1f s", ahead - member.round_trip_seconds() / 2);
}

// "planted; wordnet (another one); papers, rows 0–49 of 100": names with
// fingerprints unlike this daemon's are marked.
std::string DatasetsOf(const v1::Member& member, const v1::Member& self) {
  std::vector<std::string> names;
  for (const v1::MemberDataset& dataset : member.state().datasets()) {
    std::string name = dataset.name();
    for (const v1::RowRange& rows : dataset.feature_rows()) {
      if (rows.all() > 0) absl::StrAppend(&name, ", ", FormatRows(rows));
    }
    for (const v1::MemberDataset& own : self.state().datasets()) {
      if (own.name() == dataset.name() &&
          own.fingerprint() != dataset.fingerprint()) {
        name += " (another one)";
      }
    }
    names.push_back(std::move(name));
  }
  return absl::StrJoin(names, "; ");
}

absl::StatusOr<int> ShowCluster(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::ListMembersResponse cluster,
                          session.client.ListMembers());
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(cluster), session);
    return kExitDone;
  }
  Table table({{"member"},
               {"address"},
               {"version"},
               {"round trip", Table::Align::kRight},
               {"clock", Table::Align::kRight},
               {"jobs", Table::Align::kRight},
               {"datasets"}});
  const v1::Member& self = cluster.members(0);
  for (const v1::Member& member : cluster.members()) {
    const v1::MemberState& state = member.state();
    table.AddRow(
        {member.name(), member.address(),
         member.error().empty() ? state.version() : member.error(),
         member.has_state()
             ? absl::StrFormat("%.1f ms", 1000 * member.round_trip_seconds())
             : "-",
         ClockOf(member, self),
         member.has_state() ? absl::StrCat(state.jobs_running()) : "-",
         DatasetsOf(member, self)});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

}  // namespace

void AddClusterCommand(CLI::App& app, Action* chosen) {
  app.add_subcommand("cluster",
                     "The daemons that train together, and how they are")
      ->callback([=] { *chosen = ShowCluster; });
}

namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
// Deadline of a call: the picture soon tells that a daemon is silent.
constexpr absl::Duration kTopPatience = absl::Seconds(3);
// Jobs that are watched; a screen does not hold more.
constexpr size_t kMostFollowed = 64;
// Newest events among which there is one of progress: the daemon stores one
// twice a second.
constexpr uint64_t kLastEvents = 8;

// Watches of running jobs, with a thread and the newest progress for each.
// Thread-compatible.
class JobWatches {
 public:
  explicit JobWatches(client::Client& client) : client_(client) {}

  // Watches the running jobs of `jobs`, and no others.
  void Follow(const std::vector<v1::Job>& jobs) {
    std::map<std::string, std::unique_ptr<Watch>> followed;
    for (const v1::Job& job : jobs) {
      if (job.state() != v1::RUNNING && job.state() != v1::PREPARING) continue;
      if (followed.size() == kMostFollowed) break;
      auto known = watches_.extract(job.id());
      // A watch that was given up while the daemon was away starts again.
      if (!known.empty() && !known.mapped()->HasEnded()) {
        followed.insert(std::move(known));
      } else {
        followed[job.id()] = std::make_unique<Watch>(client_, job);
      }
    }
    for (auto& [id, watch] : watches_) watch->Stop();
    watches_ = std::move(followed);
  }

  // Waits until each watch has an event, for at most `patience`.
  void AwaitFirst(absl::Duration patience) {
    const absl::Time end = absl::Now() + patience;
    for (auto& [id, watch] : watches_) watch->AwaitFirst(end);
  }

  // Hands the new events to `view`.
  void Tell(TopView& view) {
    for (auto& [id, watch] : watches_) {
      for (const v1::JobEvent& event : watch->Take()) view.Add(id, event);
    }
  }

 private:
  class Watch {
   public:
    Watch(client::Client& client, const v1::Job& job)
        : thread_([this, &client, id = job.id(),
                   last = job.last_sequence()](const std::stop_token& stop) {
            const uint64_t from = last > kLastEvents ? last - kLastEvents : 1;
            // The calls of Refresh report errors.
            client
                .WatchJob(
                    id, from,
                    [this](const v1::JobEvent& event) {
                      Put(event);
                      return true;
                    },
                    stop)
                .IgnoreError();
            absl::MutexLock lock(&mutex_);
            has_ended_ = true;
          }) {}

    void Stop() { thread_.request_stop(); }

    bool HasEnded() ABSL_LOCKS_EXCLUDED(mutex_) {
      absl::MutexLock lock(&mutex_);
      return has_ended_;
    }

    void AwaitFirst(absl::Time end) ABSL_LOCKS_EXCLUDED(mutex_) {
      absl::MutexLock lock(&mutex_);
      while (events_.empty() && !has_ended_ &&
             !changed_.WaitWithDeadline(&mutex_, end)) {
      }
    }

    std::vector<v1::JobEvent> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
      absl::MutexLock lock(&mutex_);
      return std::exchange(events_, {});
    }

   private:
    void Put(const v1::JobEvent& event) ABSL_LOCKS_EXCLUDED(mutex_) {
      if (!event.has_progress()) return;
      absl::MutexLock lock(&mutex_);
      events_.push_back(event);
      changed_.SignalAll();
    }

    absl::Mutex mutex_;
    absl::CondVar changed_;
    std::vector<v1::JobEvent> events_ ABSL_GUARDED_BY(mutex_);
    bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
    // Last member: the thread ends before the others go.
    std::jthread thread_;
  };

  client::Client& client_;
  std::map<std::string, std::unique_ptr<Watch>> watches_;
};

// All jobs that have begun and not ended, and one page of the queue, which may
// be long.
absl::StatusOr<std::vector<v1::Job>> ListUnfinished(client::Client& client) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> queued,
                          client.ListNewestJobs({v1::QUEUED}));
  HEARTH_ASSIGN_OR_RETURN(
      std::vector<v1::Job> jobs,
      client.ListJobs({v1::PREPARING, v1::RUNNING, v1::WAITING}));
  std::set<std::string> begun;
  for (const v1::Job& job : jobs) begun.insert(job.id());
  for (const v1::Job& job : queued) {
    // A job may have begun between the two answers.
    if (!begun.contains(job.id())) jobs.push_back(job);
  }
  return jobs;
}

// Asks the daemon once, and updates the watches and the view.
absl::Status Refresh(client::Client& client, JobWatches& watches,
                     TopView& view) {
  const double now = Clock::Real().SteadySeconds();
  const absl::StatusOr<v1::Status> status = client.GetStatus();
  absl::StatusOr<std::vector<v1::Job>> jobs =
      status.ok() ? ListUnfinished(client) : status.status();
  if (!jobs.ok()) {
    view.Lose(jobs.status(), Clock::Real().SteadySeconds());
    return jobs.status();
  }
  watches.Follow(*jobs);
  view.Add(*status, *std::move(jobs), now);
  watches.Tell(view);
  return absl::OkStatus();
}

// Whether the daemon is away, or answers that it stops.
bool IsAway(const absl::Status& status) {
  return client::IsUnreachable(status) || absl::IsUnavailable(status);
}

// Asks twice, kInterval apart, since rates need two answers, and prints once.
absl::StatusOr<int> ShowOnce(client::Client& client, JobWatches& watches,
                             TopView& view, Session& session) {
  const absl::Time begin = absl::Now();
  HEARTH_RETURN_IF_ERROR(Refresh(client, watches, view));
  watches.AwaitFirst(kInterval);
  absl::SleepFor(begin + kInterval - absl::Now());
  HEARTH_RETURN_IF_ERROR(Refresh(client, watches, view));
  if (session.output == Output::kJson) {
    PrintJson(view.Json(), session);
  } else {
    session.environment.out << view.Text(0, 0) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> ShowLive(client::Client& client, JobWatches& watches,
                             TopView& view, Session& session) {
  const Environment& environment = session.environment;
  const std::stop_token stop = environment.catch_termination();
  // The first answer is awaited as by any command: nothing can be shown yet.
  HEARTH_RETURN_IF_ERROR(Refresh(session.client, watches, view));
  Screen screen(environment.out, STDIN_FILENO);
  do {
    const absl::Status status = Refresh(client, watches, view);
    if (!status.ok() && !IsAway(status)) return status;
    screen.Draw(view.Text(environment.columns(), environment.rows()));
  } while (screen.Wait(kInterval, stop));
  return kExitDone;
}

absl::StatusOr<int> Top(bool once, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(client::ClientOptions options,
                          session.client_options());
  options.call_timeout = kTopPatience;
  options.call_attempts = 1;
  const std::unique_ptr<client::Client> client = client::NewClient(options);
  JobWatches watches(*client);
  TopView view;
  const bool live = !once && session.output == Output::kTable &&
                    session.environment.out_is_terminal;
  return live ? ShowLive(*client, watches, view, session)
              : ShowOnce(session.client, watches, view, session);
}

}  // namespace

void AddTopCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "top",
      "Running and waiting jobs, memory and disk, each second until q or "
      "Ctrl-C; once where there is no terminal, and with --output json");
  const auto once = std::make_shared<bool>(false);
  command->add_flag("--once", *once, "Print one table, after a second");
  command->callback(
      [=] { *chosen = [=](Session& session) { return Top(*once, session); }; });
}

namespace {

using doctor::Finding;
using doctor::Severity;

constexpr absl::Duration kDoctorPatience = absl::Seconds(2);

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

// The status of the daemon that the options name.
absl::StatusOr<doctor::DaemonAnswer> AskDaemon(
    absl::StatusOr<client::ClientOptions> options) {
  HEARTH_RETURN_IF_ERROR(options.status());
  options->call_timeout = kDoctorPatience;
  options->call_attempts = 1;
  doctor::DaemonAnswer answer;
  answer.asked = Clock::Real().Now();
  HEARTH_ASSIGN_OR_RETURN(answer.status,
                          client::NewClient(*options)->GetStatus());
  answer.answered = Clock::Real().Now();
  return answer;
}

// The finding about a daemon that did not answer, with how to start or reach
// it.
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
  // The nearest existing parent is on the same disk.
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
  // The daemon has checked the owner of its own folder itself.
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
