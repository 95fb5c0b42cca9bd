#include "engine/job/run/heard_turns.h"

#include <algorithm>
#include <utility>

namespace hearth::job {

void HeardTurns::Add(const PassTurn& turn) {
  if (turn.number > last_) turns_.try_emplace(turn.number, turn);
}

std::optional<PassTurn> HeardTurns::Next(
    bool is_attached,
    absl::FunctionRef<bool(const std::string& attempt)> waits) {
  auto next = turns_.find(last_ + 1);
  if (!is_attached) {
    next = std::find_if(turns_.begin(), turns_.end(), [&](const auto& entry) {
      return std::any_of(
          entry.second.jobs.begin(), entry.second.jobs.end(),
          [&](const PassTurn::Job& job) { return waits(job.attempt); });
    });
  }
  if (next == turns_.end()) return std::nullopt;
  PassTurn turn = std::move(next->second);
  last_ = turn.number;
  turns_.erase(turns_.begin(), std::next(next));
  return turn;
}

}  // namespace hearth::job
