#ifndef HEARTH_CLIENT_DOCTOR_CHECKS_H_
#define HEARTH_CLIENT_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/doctor/machine_facts.h"
#include "hearth/v1/admin.pb.h"

namespace hearth::doctor {

/// How much something matters.
enum class Severity {
  /// As it should be.
  kOk,
  /// Worth knowing: it costs speed, or could not be looked at.
  kNote,
  /// Jobs fail, or are not safe, until it is mended.
  kProblem,
};

/// Result of one check.
struct Finding {
  Severity severity = Severity::kOk;
  /// Name of the thing that was looked at: "io_uring".
  std::string check = {};
  /// How it is: "forbidden to ordinary users".
  std::string value = {};
  /// Advice: a command or an option where there is one; empty = nothing.
  std::string remedy = {};
};

/// Checks judge facts. Pure: each gives the same findings for the same facts.

/// io_uring, limits, memory, processor, GPU. `whose`: "hearthd" or "hearth",
/// the process that the facts are of.
std::vector<Finding> CheckMachine(const MachineFacts& facts,
                                  const std::string& whose);

/// The data directory: permissions, file system, space, disk. `user`: the
/// effective user id that the daemon has, or would have.
std::vector<Finding> CheckFolder(const FolderFacts& facts, uid_t user);

/// The Unix socket; `is_served`: whether a daemon answers by it.
Finding CheckSocket(const SocketFacts& facts, bool is_served);

/// The speed of the disk, or why it could not be measured.
std::vector<Finding> CheckDisk(const absl::StatusOr<DiskSpeed>& speed);

/// Readings of both clocks, seconds apart.
struct ClockReadings {
  absl::Time first_wall = {};
  absl::Time last_wall = {};
  /// Seconds on the steady clock.
  double first_steady = 0;
  double last_steady = 0;
};

/// This machine's clock.
Finding CheckClock(const MachineFacts& facts, const ClockReadings& readings);

/// A daemon's answer, and when it was asked for and came, by this machine's
/// wall clock.
struct DaemonAnswer {
  v1::Status status;
  absl::Time asked;
  absl::Time answered;
};

/// A daemon that answers: its version, clock, means of reading, and what it
/// warns of. `facts` are of the machine if the daemon is on it; else null.
std::vector<Finding> CheckDaemon(const DaemonAnswer& answer,
                                 const MachineFacts* facts);

}  // namespace hearth::doctor

#endif  // HEARTH_CLIENT_DOCTOR_CHECKS_H_
