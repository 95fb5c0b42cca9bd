#ifndef HEARTH_ENGINE_JOB_RUN_HEARD_TURNS_H_
#define HEARTH_ENGINE_JOB_RUN_HEARD_TURNS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "engine/job/interface/pass_board.h"

namespace hearth::job {

/// Brings the turns that the boards of several jobs have told into one order,
/// that of rank 0. Each board tells all turns from its job's first one on.
/// Thread-compatible.
class HeardTurns {
 public:
  /// A board has told `turn`, perhaps after another one has.
  void Add(const PassTurn& turn);

  /// Takes the next turn; nullopt if it was not heard yet. While a job
  /// `is_attached` here, none may be left out: rank 0 may be in any of them.
  /// Otherwise those are over, as far as this rank is concerned, that come
  /// before the first one with a job that `waits` here to be attached.
  std::optional<PassTurn> Next(
      bool is_attached,
      absl::FunctionRef<bool(const std::string& attempt)> waits);

 private:
  // By number, all after `last_`.
  std::map<uint64_t, PassTurn> turns_;
  uint64_t last_ = 0;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_HEARD_TURNS_H_
