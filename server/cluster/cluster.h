#ifndef HEARTH_SERVER_CLUSTER_CLUSTER_H_
#define HEARTH_SERVER_CLUSTER_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/pass_board.h"
#include "engine/metrics/registry.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/report.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/cluster/attempts.h"
#include "server/cluster/cluster_file.h"
#include "server/cluster/cluster_times.h"
#include "server/cluster/enrollments.h"
#include "server/cluster/link_group.h"
#include "server/cluster/links.h"
#include "server/cluster/traffic_metrics.h"

/// The cluster of a daemon: its members, and what attempts at jobs on several
/// of them share.

namespace grpc {
class Channel;
}

namespace hearth::server {

class RankSessions;

/// Trains the own part of a job: called with the connected ranks, the board for
/// the passes that it shares, and the names of the machines, by rank; stops
/// when the token says so, as any job does. Returns what the rank did, without
/// what the group counts.
using TrainRank = std::function<absl::StatusOr<v1::MachineReport>(
    LinkGroup& group, job::PassBoard& board,
    const std::vector<std::string>& members, std::stop_token stop)>;

/// The members, and this daemon's attempts. Thread-safe.
class Cluster {
 public:
  struct Options {
    /// The file of --cluster.
    std::string path;
    /// Folder in which attempts are remembered.
    std::string folder;
    /// MemberState.arithmetic.
    std::string arithmetic;
    ClusterTimes times = {};
    /// Attempts at a job in a row, without a checkpoint between, that the end
    /// of a member's process may end.
    int retries = 3;
  };

  /// Reads the file and checks its certificates. All but `options` outlive the
  /// result.
  static absl::StatusOr<std::unique_ptr<Cluster>> Open(
      const Options& options, io::FileSystem& files, const Clock& clock,
      metrics::Registry& registry);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// The file as it is now, with the addresses that members have told; name and
  /// listen as they were at the start.
  absl::StatusOr<ClusterFile> Read() const;

  const std::string& name() const { return first_.name; }
  const std::string& arithmetic() const { return options_.arithmetic; }
  /// Random text of this process.
  const std::string& boot_id() const { return boot_id_; }
  const ClusterTimes& times() const { return options_.times; }
  const ClusterFile& at_start() const { return first_; }
  const Clock& clock() const { return clock_; }

  LinkHub& links() { return links_; }
  Attempts& attempts() { return attempts_; }
  RankSessions& sessions() { return *sessions_; }
  Enrollments& enrollments() { return enrollments_; }
  TrafficMetrics& traffic_metrics() { return traffic_metrics_; }

  /// OK if the file names this member. PERMISSION_DENIED otherwise.
  absl::Status CheckMember(const std::string& member) const;

  /// A new connection to a member, which gRPC makes with the first call.
  /// UNAVAILABLE of the cause WaitCause::kPeer if it has not told its address.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(
      const ClusterMember& member) const;

  /// Asks all members but this one how they are, each for `patience` at most.
  absl::StatusOr<std::vector<v1::Member>> AskMembers(
      absl::Duration patience) const;

  /// Those of `members` that answer within `patience`; this daemon does.
  std::vector<ClusterMember> WhoIsThere(
      const std::vector<ClusterMember>& members, absl::Duration patience) const;

  /// Connects rank `spec.rank()` to all other ranks of its attempt.
  /// `addresses`: by rank. UNAVAILABLE, naming the member.
  absl::StatusOr<std::unique_ptr<LinkGroup>> ConnectRanks(
      const v1::RankSpec& spec, const std::vector<std::string>& addresses,
      std::function<void()> on_leave);

  /// Machines of a job that this daemon leads are missing, from now on unless
  /// they were before; or all are there.
  void NoteMissing(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteComplete(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Time for which machines of the job have been missing.
  absl::Duration MissingFor(const std::string& job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// A member takes part in a new attempt at a job that this daemon leads, as
  /// the process `boot_id`. ABORTED if its processes have died in too many
  /// attempts in a row. A restart of this daemon begins the count again.
  absl::Status NoteProcess(const std::string& job, const std::string& member,
                           const std::string& boot_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// The job has a new checkpoint, or has ended: the counts begin again.
  void ForgetDeaths(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The machines of running jobs that this daemon leads.
  void SetMachines(const std::string& job,
                   std::vector<v1::MachineState> machines)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetMachines(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Adds to a job the machines that train it.
  void AddMachines(v1::Job& job) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Ask(v1::Member& member, absl::Duration patience) const;
  std::vector<v1::Member> AskAll(const std::vector<ClusterMember>& members,
                                 absl::Duration patience) const;

  Cluster(const Options& options, ClusterFile file, std::string boot_id,
          io::FileSystem& files, const Clock& clock,
          metrics::Registry& registry);

  // The process of a member that took part in the last attempt at a job, and
  // how many of them have died in a row.
  struct Process {
    std::string boot_id;
    int deaths = 0;
  };

  const Options options_;
  const std::string boot_id_;
  const ClusterFile first_;
  io::FileSystem& files_;
  const Clock& clock_;
  LinkHub links_;
  Attempts attempts_;
  const std::unique_ptr<RankSessions> sessions_;
  Enrollments enrollments_;
  TrafficMetrics traffic_metrics_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::vector<v1::MachineState>> machines_
      ABSL_GUARDED_BY(mutex_);
  // By job, and member.
  std::map<std::string, std::map<std::string, Process>> processes_
      ABSL_GUARDED_BY(mutex_);
  // Times, on the steady clock, since which machines of jobs are missing.
  std::map<std::string, double> missing_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_CLUSTER_H_
