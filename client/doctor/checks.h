#ifndef HEARTH_CLIENT_DOCTOR_CHECKS_H_
#define HEARTH_CLIENT_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/doctor/machine_facts.h"
#include "hearth/v1/admin.pb.h"

/// Findings about facts: each check says how a thing is, how much that matters,
/// and how to mend it. Checks are pure: the same facts give the same findings.

namespace hearth::doctor {

/// How much a finding matters.
enum class Severity {
  /// As it should be.
  kOk,
  /// Costs speed, or could not be checked.
  kNote,
  /// Until it is mended, jobs fail or are not safe.
  kProblem,
};

/// Result of one check.
struct Finding {
  Severity severity = Severity::kOk;
  /// Name of the checked thing: "io_uring".
  std::string check = {};
  /// State of the thing: "forbidden to ordinary users".
  std::string value = {};
  /// Advice, if possible a command or an option; empty = none.
  std::string remedy = {};
};

/// Findings about io_uring, limits, memory, processor and GPU. `whose` names
/// the process that the limits are of.
std::vector<Finding> CheckMachine(const MachineFacts& facts,
                                  const std::string& whose);

/// Findings about a data directory: permissions, file system, space, disk.
/// `user`: effective user id of the daemon, running or to be started.
std::vector<Finding> CheckFolder(const FolderFacts& facts, uid_t user);

/// Finding about the Unix socket; `is_served`: whether a daemon answers on it.
Finding CheckSocket(const SocketFacts& facts, bool is_served);

/// Findings about the speed of a disk, or the error of measuring it.
std::vector<Finding> CheckDisk(const absl::StatusOr<DiskSpeed>& speed);

/// Two readings of both clocks, some seconds apart.
struct ClockReadings {
  absl::Time first_wall = {};
  absl::Time last_wall = {};
  /// Seconds on the steady clock.
  double first_steady = 0;
  double last_steady = 0;
};

/// Finding about this machine's clock.
Finding CheckClock(const MachineFacts& facts, const ClockReadings& readings);

/// A daemon's status, and this machine's wall clock before the question and
/// after the answer.
struct DaemonAnswer {
  v1::Status status;
  absl::Time asked;
  absl::Time answered;
};

/// Findings about a daemon that answers: version, clock, way of reading,
/// devices, warnings. `facts`: facts about its machine, or null if the daemon
/// is not on this machine.
std::vector<Finding> CheckDaemon(const DaemonAnswer& answer,
                                 const MachineFacts* facts);

}  // namespace hearth::doctor

#endif  // HEARTH_CLIENT_DOCTOR_CHECKS_H_
