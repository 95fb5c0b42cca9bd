#ifndef HEARTH_ENGINE_PLAN_PARTITION_ROUNDS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_ROUNDS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"

namespace hearth::plan {

/// Rounds without more inner edges than any before, after which a level ends.
inline constexpr int kMaxStalledRounds = 3;

/// Calls `place`, again and again, `rounds` times at most; the rounds made.
inline absl::StatusOr<int> MakeRounds(
    int rounds, absl::FunctionRef<absl::Status(bool again)> place,
    absl::FunctionRef<absl::StatusOr<int64_t>()> count_inner) {
  int64_t most = -1;
  int stalled = 0;
  int made = 0;
  while (made < rounds && stalled < kMaxStalledRounds) {
    HEARTH_RETURN_IF_ERROR(place(made > 0));
    ++made;
    if (made == rounds) break;
    HEARTH_ASSIGN_OR_RETURN(const int64_t inner, count_inner());
    stalled = inner > most ? 0 : stalled + 1;
    most = inner > most ? inner : most;
  }
  return made;
}

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_ROUNDS_H_
