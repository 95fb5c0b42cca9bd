#ifndef HEARTH_CLIENT_DOCTOR_FINDING_H_
#define HEARTH_CLIENT_DOCTOR_FINDING_H_

#include <string>

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

}  // namespace hearth::doctor

#endif  // HEARTH_CLIENT_DOCTOR_FINDING_H_
