#ifndef HEARTH_SERVER_CLUSTER_RANK_RUN_H_
#define HEARTH_SERVER_CLUSTER_RANK_RUN_H_

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hearth/v1/report.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/cluster/cluster.h"
#include "server/cluster/link_group.h"

namespace hearth::server {

/// What became of a rank's part in an attempt.
struct RankResult {
  absl::StatusOr<v1::MachineReport> report;
  /// Whether the ranks have left together, with a checkpoint each.
  bool has_left = false;
  /// Whether the error of `report` is that of a connection or of `look`, rather
  /// than of the rank's own work.
  bool was_ended = false;
};

/// The part of TrainRank that needs no board.
using TrainOnLinks = std::function<absl::StatusOr<v1::MachineReport>(
    LinkGroup& group, const std::vector<std::string>& members,
    std::stop_token stop)>;

/// Connects rank `spec.rank()` to the others (Cluster::ConnectRanks) and calls
/// `train`. Meanwhile, on a thread of its own:
///
///   - `look` is called ten times a second, with what the group has moved; an
///     error ends the group and stops the rank;
///   - once `stop` is requested, all ranks are asked to leave together; the
///   rank
///     stops alone, with CANCELLED, if there is no batch to leave after: before
///     the first one, and after ClusterTimes::leave.
RankResult RunRank(
    Cluster& cluster, const v1::RankSpec& spec,
    const std::vector<std::string>& addresses, const std::stop_token& stop,
    absl::FunctionRef<absl::Status(const LinkGroup::Traffic&)> look,
    const TrainOnLinks& train);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_RANK_RUN_H_
