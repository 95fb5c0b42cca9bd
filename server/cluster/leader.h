#ifndef HEARTH_SERVER_CLUSTER_LEADER_H_
#define HEARTH_SERVER_CLUSTER_LEADER_H_

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "hearth/v1/report.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/cluster/cluster.h"

namespace hearth::server {

/// A job of several machines that this daemon leads.
struct LedJob {
  std::string id;
  const v1::TrainJobSpec& spec;
  /// Fingerprint of its dataset here.
  std::string fingerprint;
  /// The job's folder, and the name of the file in it with the newest whole
  /// checkpoint; empty = the job begins.
  std::string folder;
  std::string checkpoint;
  /// Returns RankSpec.convoy for a job of these machines, by rank; null = the
  /// job shares no passes.
  std::function<absl::StatusOr<std::string>(const std::string& machines)>
      convoy = nullptr;
  /// Called with lines for the job's log.
  std::function<void(const std::string& text)> log;
};

/// The members that train the job, this daemon first: LedJob::spec.members, or
/// the first ones of the file. FAILED_PRECONDITION if there are too few,
/// NOT_FOUND for a member that the file lacks.
absl::StatusOr<std::vector<ClusterMember>> MembersOf(
    const v1::TrainJobSpec& spec, const ClusterFile& file);

/// One attempt at a job, in these phases:
///
///   1. a new attempt is noted; all members are asked for a place (Peers.Run);
///   2. once all have one, they get the checkpoint;
///   3. the ranks connect to each other, and train (RunRank);
///   4. all hear that the attempt is over.
///
/// Meanwhile members send signs of life and get them. Returns the reports of
/// all ranks, by rank. UNAVAILABLE of the cause WaitCause::kPeer, naming the
/// member, if one is not there, is lost, lacks a place or something else that
/// may come, or leaves; CANCELLED if `stop` was requested; the error of a
/// rank's own work otherwise.
absl::StatusOr<std::vector<v1::MachineReport>> Lead(Cluster& cluster,
                                                    io::FileSystem& files,
                                                    const LedJob& job,
                                                    std::stop_token stop,
                                                    const TrainRank& train);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_LEADER_H_
