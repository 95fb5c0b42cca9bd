#include "client/cli/commands/session.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/cli/views/job_view.h"
#include "client/cli/views/progress.h"
#include "client/cli/views/text.h"
#include "client/proto_json.h"
#include "engine/base/status.h"

namespace hearth::cli {

void PrintJson(const nlohmann::ordered_json& json, Session& session) {
  session.environment.out << json.dump(2, ' ', /*ensure_ascii=*/true,
                                       nlohmann::json::error_handler_t::replace)
                          << "\n";
}

int PrintDeleted(const std::string& name, Session& session) {
  if (session.output == Output::kJson) {
    PrintJson({{"deleted", name}}, session);
  } else {
    session.environment.out << "deleted " << EscapeControl(name) << "\n";
  }
  return kExitDone;
}

absl::Status WithMessage(const absl::Status& status,
                         const std::string& message) {
  absl::Status changed(status.code(), message);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

std::string AbsolutePath(const std::string& path, const Session& session) {
  return (std::filesystem::path(session.environment.working_directory) / path)
      .lexically_normal()
      .string();
}

void AddSubmissionFlags(CLI::App& command, Submission& submission) {
  command.add_flag("--detach", submission.detach,
                   "Print the job's id and do not wait for its end");
  command
      .add_option("--priority", submission.priority,
                  "Priority, -100 to 100; jobs of higher priority run first, "
                  "jobs of equal priority in order of submission; default 0")
      ->check(CLI::Range(-100, 100))
      ->take_last();
}

namespace {

constexpr absl::Duration kTransferInterval = absl::Milliseconds(200);

std::unique_ptr<ProgressDisplay> NewDisplay(Session& session,
                                            ProgressUnit unit) {
  Environment& environment = session.environment;
  if (environment.err_is_terminal) {
    return NewLiveProgress(environment.err, unit, environment.columns);
  }
  if (session.output == Output::kJson) return NewNoProgress();
  return NewPlainProgress(environment.err);
}

ProgressUnit UnitOf(const v1::JobSpec& spec) {
  return spec.has_train() || spec.has_prepare() || spec.has_explain() ||
                 spec.has_feed() || spec.has_rank()
             ? ProgressUnit::kBatches
             : ProgressUnit::kBytes;
}

std::string WatchCommand(const Session& session, const v1::Job& job) {
  return absl::StrCat("hearth", session.server_flag, " job watch ",
                      EscapeControl(job.id()));
}

}  // namespace

TransferProgress::TransferProgress(Session& session)
    : display_(NewDisplay(session, ProgressUnit::kBytes)) {}

void TransferProgress::Show(const std::string& phase, uint64_t done,
                            uint64_t total) {
  const absl::Time now = absl::Now();
  if (phase == phase_ && now - shown_ < kTransferInterval) return;
  phase_ = phase;
  shown_ = now;
  v1::JobEvent event;
  event.mutable_time()->set_seconds(absl::ToUnixSeconds(now));
  event.mutable_time()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(
      now - absl::FromUnixSeconds(absl::ToUnixSeconds(now)))));
  event.mutable_progress()->set_phase(phase);
  event.mutable_progress()->set_done(done);
  event.mutable_progress()->set_total(total);
  display_->Show(event);
}

absl::StatusOr<int> RunJob(Session& session, const v1::JobSpec& spec,
                           const Submission& submission) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          session.client.SubmitJob(spec, submission.priority));
  return FollowOrDetach(session, job, submission.detach);
}

absl::StatusOr<int> FollowOrDetach(Session& session, const v1::Job& job,
                                   bool detach) {
  if (!detach) return FollowJob(session, job, job.last_sequence());
  if (session.output == Output::kJson) {
    PrintJson({{"id", job.id()}}, session);
  } else {
    session.environment.out << EscapeControl(job.id()) << "\n";
    session.environment.err << "watch it with: " << WatchCommand(session, job)
                            << "\n";
  }
  return kExitDone;
}

absl::StatusOr<std::optional<v1::Job>> WatchToEnd(Session& session,
                                                  const v1::Job& job,
                                                  uint64_t from_sequence,
                                                  std::stop_token stop) {
  Environment& environment = session.environment;
  const std::unique_ptr<ProgressDisplay> display =
      NewDisplay(session, UnitOf(job.spec()));
  if (session.output == Output::kTable) {
    environment.err << EscapeControl(job.id()) << "\n";
  }
  const absl::Status watched = session.client.WatchJob(
      job.id(), from_sequence,
      [&display](const v1::JobEvent& event) {
        display->Show(event);
        return true;
      },
      stop);
  display->Clear();
  if (stop.stop_requested()) return std::nullopt;
  if (!watched.ok()) {
    return Annotate(watched, absl::StrCat("watching ", job.id(), " (again: ",
                                          WatchCommand(session, job), ")"));
  }
  return session.client.GetJob(job.id());
}

int PrintEnded(Session& session, const v1::Job& job) {
  const bool succeeded = job.state() == v1::SUCCEEDED;
  Environment& environment = session.environment;
  if (session.output == Output::kJson) {
    PrintJson(client::JobToJson(job), session);
  }
  if (session.output == Output::kTable || !succeeded) {
    PrintOutcome(job, succeeded ? environment.out : environment.err);
  }
  return succeeded ? kExitDone : kExitFailed;
}

absl::StatusOr<int> FollowJob(Session& session, const v1::Job& job,
                              uint64_t from_sequence) {
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> ended,
                          WatchToEnd(session, job, from_sequence,
                                     session.environment.catch_interrupts()));
  if (ended.has_value()) return PrintEnded(session, *ended);
  session.environment.err << EscapeControl(job.id())
                          << " goes on. Come back to it with: "
                          << WatchCommand(session, job) << "\n";
  return kExitInterrupted;
}

}  // namespace hearth::cli
