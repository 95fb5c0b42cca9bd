#ifndef HEARTH_CLIENT_LAUNCHER_LAUNCH_H_
#define HEARTH_CLIENT_LAUNCHER_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace hearth::launcher {

/// What a launcher (torchrun, srun, a pod of Kubernetes, an actor of Ray) tells
/// a process that it has started, by environment variables.
struct Launch {
  /// For messages: "torchrun", "srun" or "HEARTH_RANK".
  std::string by = {};
  /// Number of this process among all of the run, and their number.
  uint32_t rank = 0;
  uint32_t size = 1;
  /// Name or number of rank 0's host.
  std::string leader = {};
  /// Equal in all processes of a run, and unlike that of other runs; may be
  /// empty.
  std::string run = {};
  /// Number of this process among those of the run on its machine.
  uint32_t local_rank = 0;
  /// Whether other processes of the run are on this machine; whether all are.
  bool shares_machine = false;
  bool is_on_one_machine = false;
};

/// The value of an environment variable; null if it is not set.
using Variables = std::function<const char*(const char*)>;

/// Who has started this process, from the first of these that are set:
///
///   others    HEARTH_RANK, HEARTH_RANKS, HEARTH_LEADER; HEARTH_RUN_ID,
///             HEARTH_LOCAL_RANK and HEARTH_LOCAL_RANKS if they are set
///   torchrun  RANK, WORLD_SIZE, MASTER_ADDR; TORCHELASTIC_RUN_ID, LOCAL_RANK
///             and LOCAL_WORLD_SIZE if they are set
///   srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST,
///             SLURM_STEP_NUM_NODES, SLURM_LOCALID, SLURM_JOB_ID: those of the
///             step, since a batch script has those of the job, and is alone
///
/// Nullopt if none are, or the process is the only one. INVALID_ARGUMENT,
/// naming the variable.
absl::StatusOr<std::optional<Launch>> FindLaunch(const Variables& variables);

}  // namespace hearth::launcher

#endif  // HEARTH_CLIENT_LAUNCHER_LAUNCH_H_
