#include "server/cluster/leader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "hearth/v1/peers.pb.h"
#include "server/cluster/boards.h"
#include "server/cluster/checkpoint_copy.h"
#include "server/cluster/rank_call.h"
#include "server/cluster/rank_run.h"

namespace hearth::server {

namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
// Bytes of an attempt's random text.
constexpr size_t kNonceBytes = 16;

// The calls of all other ranks, with a thread that sends signs of life and
// looks for silent ranks.
class Ranks {
 public:
  Ranks(const ClusterTimes& times, const Clock& clock)
      : times_(times), clock_(clock) {}

  ~Ranks() {
    is_over_.Notify();
    if (beats_.joinable()) beats_.join();
  }

  void Add(std::shared_ptr<grpc::Channel> channel, const v1::RankStart& start) {
    calls_.push_back(
        std::make_unique<RankCall>(std::move(channel), start, clock_));
  }
  // Call once all are added.
  void KeepAlive() {
    beats_ = std::thread([this] {
      double last = clock_.SteadySeconds();
      while (!is_over_.WaitForNotificationWithTimeout(times_.beat)) {
        const double now = clock_.SteadySeconds();
        if (now - last > absl::ToDoubleSeconds(times_.silence)) {
          hung_seconds_ = now - last;
        }
        last = now;
        for (const auto& call : calls_) {
          call->CheckSilence(times_.silence);
          call->SendBeat();
        }
      }
    });
  }

  // Waits until all ranks are in `phase` or a later one. The error of the first
  // that is lost or has failed; CANCELLED after a stop; `late` after
  // `patience`.
  absl::Status Await(RankCall::Phase phase, absl::Duration patience,
                     absl::string_view late,
                     const std::stop_token& stop) const {
    const double begin = clock_.SteadySeconds();
    while (true) {
      if (stop.stop_requested()) return absl::CancelledError("stopped");
      const RankCall* missing = nullptr;
      for (const auto& call : calls_) {
        HEARTH_RETURN_IF_ERROR(call->status());
        if (call->phase() < phase) missing = call.get();
      }
      if (missing == nullptr) return absl::OkStatus();
      if (clock_.SteadySeconds() - begin > absl::ToDoubleSeconds(patience)) {
        return WaitForPeerError(absl::StrCat(missing->member(), ": ", late));
      }
      absl::SleepFor(kLookEvery);
    }
  }

  // WaitForPeerError if this process was stopped, or the machine asleep, so
  // that others have given it up.
  absl::Status Awake() const {
    const double seconds = hung_seconds_;
    if (seconds == 0) return absl::OkStatus();
    return WaitForPeerError(absl::StrFormat(
        "this daemon did not run for %.1f s, and was given up", seconds));
  }

  // Waits until some rank tells why it has failed. A lost rank is why others
  // failed. OK if none does.
  absl::Status AwaitCause(absl::Duration patience) const {
    const double begin = clock_.SteadySeconds();
    // With the next sign of life it shows whether this process was stopped.
    absl::SleepFor(times_.beat);
    while (true) {
      HEARTH_RETURN_IF_ERROR(Awake());
      absl::Status said;
      bool all_ended = true;
      for (const auto& call : calls_) {
        const absl::Status status = call->status();
        if (!status.ok() && call->is_lost()) return status;
        // Errors that cannot pass are nobody else's fault.
        if (said.ok() || WaitCauseOf(status) == WaitCause::kNone) {
          said.Update(status);
        }
        all_ended = all_ended && call->phase() == RankCall::Phase::kEnded;
      }
      if (all_ended ||
          clock_.SteadySeconds() - begin > absl::ToDoubleSeconds(patience)) {
        return said;
      }
      absl::SleepFor(kLookEvery);
    }
  }

  // The error of a rank that is lost, or has failed for good; OK if none has.
  absl::Status Look() const {
    for (const auto& call : calls_) HEARTH_RETURN_IF_ERROR(call->status());
    return absl::OkStatus();
  }

  void SendAll(const v1::LeaderMessage& message) const {
    for (const auto& call : calls_) call->Send(message);
  }

  void EndAll(const std::string& reason) const {
    std::vector<std::thread> threads;
    for (const auto& call : calls_) {
      threads.emplace_back([&] { call->End(reason, times_.last_words); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const std::vector<std::unique_ptr<RankCall>>& calls() const { return calls_; }

 private:
  const ClusterTimes times_;
  const Clock& clock_;
  std::vector<std::unique_ptr<RankCall>> calls_;
  std::atomic<double> hung_seconds_ = 0;
  absl::Notification is_over_;
  std::thread beats_;
};

// A new attempt of this daemon, durable before anybody hears of it.
absl::StatusOr<Attempt> NewAttempt(Cluster& cluster, const std::string& job,
                                   const std::vector<ClusterMember>& members) {
  HEARTH_ASSIGN_OR_RETURN(Attempt attempt,
                          cluster.attempts().Find(cluster.name(), job));
  ++attempt.number;
  for (const ClusterMember& member : members) {
    if (member.name != cluster.name()) attempt.members.insert(member.name);
  }
  HEARTH_ASSIGN_OR_RETURN(attempt.nonce, RandomHex(kNonceBytes));
  HEARTH_RETURN_IF_ERROR(cluster.attempts().Note(cluster.name(), job, attempt));
  return attempt;
}

v1::MachineState OwnState(const Cluster& cluster,
                          const LinkGroup::Traffic& traffic) {
  v1::MachineState state;
  state.set_member(cluster.name());
  state.set_phase("leads");
  state.set_bytes_sent(traffic.bytes_sent);
  state.set_bytes_received(traffic.bytes_received);
  state.set_wait_seconds(traffic.wait_seconds);
  return state;
}

void Show(Cluster& cluster, const LedJob& job, const Ranks& ranks,
          const LinkGroup::Traffic& traffic) {
  std::vector<v1::MachineState> machines = {OwnState(cluster, traffic)};
  for (const auto& call : ranks.calls()) machines.push_back(call->state());
  cluster.SetMachines(job.id, std::move(machines));
}

// The reports of all ranks, after the leader's own part has ended well.
std::vector<v1::MachineReport> ReportsOf(const Cluster& cluster,
                                         const Ranks& ranks,
                                         v1::MachineReport own,
                                         const LedJob& job) {
  own.set_member(cluster.name());
  std::vector<v1::MachineReport> reports = {std::move(own)};
  // They have taken the same steps, and end at the same time.
  const absl::Status status =
      ranks.Await(RankCall::Phase::kEnded, cluster.times().last_words,
                  "has not reported", {});
  if (!status.ok()) {
    job.log(absl::StrCat("the job has ended, but ", status.message()));
  }
  for (const auto& call : ranks.calls()) {
    v1::MachineReport report = call->report().value_or(v1::MachineReport());
    report.set_member(call->member());
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

absl::StatusOr<std::vector<ClusterMember>> MembersOf(
    const v1::TrainJobSpec& spec, const ClusterFile& file) {
  std::vector<ClusterMember> members = {*file.Find(file.name)};
  const auto add = [&](const ClusterMember* member) {
    const bool is_new = std::none_of(
        members.begin(), members.end(),
        [&](const ClusterMember& one) { return one.name == member->name; });
    if (is_new && members.size() < spec.machines()) members.push_back(*member);
  };
  if (spec.members().empty()) {
    for (const ClusterMember& member : file.members) add(&member);
  } else {
    for (absl::string_view name : absl::StrSplit(spec.members(), ',')) {
      const ClusterMember* const member = file.Find(name);
      if (member == nullptr) {
        return absl::NotFoundError(
            absl::StrCat("members: the cluster has no member \"", name, "\""));
      }
      add(member);
    }
  }
  if (members.size() == spec.machines()) return members;
  return absl::FailedPreconditionError(absl::StrCat(
      "machines: ", spec.machines(), " were asked for, but there are ",
      members.size(), ": ",
      absl::StrJoin(members, ", ", [](std::string* out, const auto& one) {
        out->append(one.name);
      })));
}

namespace {

// All members, or, where some have been missing for long and the job allows it,
// those that are there.
absl::StatusOr<std::vector<ClusterMember>> MembersNow(const Cluster& cluster,
                                                      const LedJob& job) {
  HEARTH_ASSIGN_OR_RETURN(const ClusterFile file, cluster.Read());
  HEARTH_ASSIGN_OR_RETURN(std::vector<ClusterMember> members,
                          MembersOf(job.spec, file));
  const uint32_t least = job.spec.min_machines();
  if (least == 0 || cluster.MissingFor(job.id) <
                        absl::Seconds(job.spec.rejoin_wait_seconds())) {
    return members;
  }
  std::vector<ClusterMember> there =
      cluster.WhoIsThere(members, cluster.times().last_words);
  if (there.size() < least || there.size() == members.size()) return members;
  job.log(absl::StrCat(
      "going on with ", there.size(), " of ", members.size(),
      " machines, which have been incomplete for ",
      absl::FormatDuration(absl::Seconds(job.spec.rejoin_wait_seconds())),
      ": results from here on are those of ", there.size()));
  return there;
}

// The phases of an attempt whose ranks have been asked. `own` is the leader's
// part.
absl::StatusOr<std::vector<v1::MachineReport>> RunAttempt(
    Cluster& cluster, io::FileSystem& files, const LedJob& job,
    const v1::RankSpec& own, const std::vector<std::string>& addresses,
    const Ranks& ranks, const std::stop_token& stop, const TrainRank& train) {
  LeaderBoard board(own.nonce(), [&](const v1::LeaderMessage& message) {
    ranks.SendAll(message);
  });
  Show(cluster, job, ranks, {});
  if (absl::Status status =
          ranks.Await(RankCall::Phase::kAccepted, cluster.times().place,
                      "has no free place", stop);
      !status.ok()) {
    cluster.NoteMissing(job.id);
    return status;
  }
  if (addresses.size() == job.spec.machines()) cluster.NoteComplete(job.id);
  for (const auto& call : ranks.calls()) {
    // A member that is told again does nothing.
    cluster.attempts()
        .NoteTold(cluster.name(), call->told_deleted(), call->member())
        .IgnoreError();
    HEARTH_RETURN_IF_ERROR(
        cluster.NoteProcess(job.id, call->member(), call->boot_id()));
  }
  HEARTH_RETURN_IF_ERROR(SendCheckpoint(files, job.folder, job.checkpoint,
                                        [&](const v1::CheckpointPiece& piece) {
                                          v1::LeaderMessage message;
                                          *message.mutable_checkpoint() = piece;
                                          ranks.SendAll(message);
                                        }));
  HEARTH_RETURN_IF_ERROR(ranks.Await(RankCall::Phase::kLoaded,
                                     absl::InfiniteDuration(), "", stop));
  v1::LeaderMessage go;
  go.mutable_go();
  ranks.SendAll(go);
  RankResult result = RunRank(
      cluster, own, addresses, stop,
      [&](const LinkGroup::Traffic& traffic) {
        Show(cluster, job, ranks, traffic);
        return ranks.Look();
      },
      [&](LinkGroup& group, const std::vector<std::string>& members,
          std::stop_token attempt) {
        return train(group, board, members, std::move(attempt));
      });
  if (result.has_left) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    const absl::Status who = ranks.AwaitCause(cluster.times().last_words);
    return WaitForPeerError(who.ok() ? "a machine has left" : who.message());
  }
  if (result.report.ok()) {
    return ReportsOf(cluster, ranks, *std::move(result.report), job);
  }
  const absl::Status& status = result.report.status();
  // Rows of another machine (row_exchange.h) are lost with it, too.
  const bool may_be_others =
      result.was_ended || WaitCauseOf(status) == WaitCause::kPeer;
  if (!may_be_others || absl::IsCancelled(status)) return status;
  // A connection has ended: perhaps since a rank has failed.
  HEARTH_RETURN_IF_ERROR(ranks.AwaitCause(cluster.times().last_words));
  return WaitCauseOf(status) == WaitCause::kPeer
             ? status
             : WaitForPeerError(status.message());
}

}  // namespace

absl::StatusOr<std::vector<v1::MachineReport>> Lead(Cluster& cluster,
                                                    io::FileSystem& files,
                                                    const LedJob& job,
                                                    std::stop_token stop,
                                                    const TrainRank& train) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<ClusterMember> members,
                          MembersNow(cluster, job));
  HEARTH_ASSIGN_OR_RETURN(const Attempt attempt,
                          NewAttempt(cluster, job.id, members));
  v1::RankStart start;
  v1::RankSpec& spec = *start.mutable_rank();
  spec.set_leader(cluster.name());
  spec.set_job_id(job.id);
  spec.set_attempt(attempt.number);
  spec.set_nonce(attempt.nonce);
  *spec.mutable_train() = job.spec;
  start.set_version(kVersion);
  start.set_arithmetic(cluster.arithmetic());
  start.set_fingerprint(job.fingerprint);
  for (const ClusterMember& member : members) {
    spec.add_ranks(member.name);
    start.add_addresses(member.address);
  }
  const std::string machines = absl::StrJoin(spec.ranks(), ", ");
  if (job.convoy) {
    HEARTH_ASSIGN_OR_RETURN(*spec.mutable_convoy(), job.convoy(machines));
  }
  job.log(absl::StrCat("attempt ", attempt.number, " on ", machines));

  Ranks ranks(cluster.times(), cluster.clock());
  const v1::RankSpec own = spec;
  for (size_t rank = 1; rank < members.size(); ++rank) {
    HEARTH_ASSIGN_OR_RETURN(auto channel, cluster.ChannelTo(members[rank]));
    spec.set_rank(static_cast<uint32_t>(rank));
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<std::string> deleted,
        cluster.attempts().DeletedJobs(cluster.name(), members[rank].name));
    start.mutable_deleted_jobs()->Assign(deleted.begin(), deleted.end());
    ranks.Add(std::move(channel), start);
  }
  ranks.KeepAlive();
  auto reports = RunAttempt(
      cluster, files, job, own,
      {start.addresses().begin(), start.addresses().end()}, ranks, stop, train);
  ranks.EndAll(std::string(reports.status().message()));
  cluster.ForgetMachines(job.id);
  if (WaitCauseOf(reports.status()) == WaitCause::kNone) {
    cluster.ForgetDeaths(job.id);
  }
  return reports;
}

}  // namespace hearth::server
