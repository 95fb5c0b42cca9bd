#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/screen.h"
#include "client/cli/top_view.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
// So that a daemon that does not answer is told of soon.
constexpr absl::Duration kPatience = absl::Seconds(3);
// More are not followed: a screen has no room for them.
constexpr size_t kMostFollowed = 64;
// Progress is stored twice a second: one of the last events tells it.
constexpr uint64_t kLastEvents = 8;

// Watches of running jobs, a thread each, of which the newest progress is kept.
// Thread-compatible.
class JobWatches {
 public:
  explicit JobWatches(client::Client& client) : client_(client) {}

  // Watches these jobs, and no others.
  void Follow(const std::vector<v1::Job>& jobs) {
    std::map<std::string, std::unique_ptr<Watch>> followed;
    for (const v1::Job& job : jobs) {
      if (job.state() != v1::RUNNING && job.state() != v1::PREPARING) continue;
      if (followed.size() == kMostFollowed) break;
      auto known = watches_.extract(job.id());
      // One that was given up, for the daemon was away, begins anew.
      if (!known.empty() && !known.mapped()->HasEnded()) {
        followed.insert(std::move(known));
      } else {
        followed[job.id()] = std::make_unique<Watch>(client_, job);
      }
    }
    for (auto& [id, watch] : watches_) watch->Stop();
    watches_ = std::move(followed);
  }

  // Waits until each has had its first event, or `patience` is over.
  void AwaitFirst(absl::Duration patience) {
    const absl::Time end = absl::Now() + patience;
    for (auto& [id, watch] : watches_) watch->AwaitFirst(end);
  }

  // Tells `view` what is new.
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
            // Why it ends is the business of the other calls.
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
    // Last: ends first.
    std::jthread thread_;
  };

  client::Client& client_;
  std::map<std::string, std::unique_ptr<Watch>> watches_;
};

// The jobs that have begun, and of the queue, which may be long, one page.
absl::StatusOr<std::vector<v1::Job>> ListUnfinished(client::Client& client) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> queued,
                          client.ListNewestJobs({v1::QUEUED}));
  HEARTH_ASSIGN_OR_RETURN(
      std::vector<v1::Job> jobs,
      client.ListJobs({v1::PREPARING, v1::RUNNING, v1::WAITING}));
  std::set<std::string> begun;
  for (const v1::Job& job : jobs) begun.insert(job.id());
  for (const v1::Job& job : queued) {
    // It may have begun between the two answers.
    if (!begun.contains(job.id())) jobs.push_back(job);
  }
  return jobs;
}

// Asks once; an error other than that the daemon is away is returned.
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

// A daemon that stops answers that it does.
bool IsAway(const absl::Status& status) {
  return client::IsUnreachable(status) || absl::IsUnavailable(status);
}

// Two looks, a moment apart, for what is told by the second.
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
  // The first look has the patience of any command: there is nothing to show.
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
  options.call_timeout = kPatience;
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

}  // namespace hearth::cli
