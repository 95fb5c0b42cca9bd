#ifndef HEARTH_ENGINE_TRAIN_RANK_GROUP_H_
#define HEARTH_ENGINE_TRAIN_RANK_GROUP_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/train/train_step.h"

/// Machines that train one model together (RankGroup).

namespace hearth::train {

/// Machines, numbered by their ranks, that share each batch (ModelShape::
/// window) and take equal steps of equal models. All ranks make the same calls
/// in the same order; each call waits for all of them. One thread makes the
/// calls; End is thread-safe.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Tells the others what became of a batch here, before anything has changed,
  /// and returns what became of it everywhere, by rank; or the error of the
  /// first rank that has one. ABORTED if ranks are at different batches, or
  /// have other sums since their last call ("replicas differ"). Other errors
  /// are those of connections.
  virtual absl::StatusOr<std::vector<BatchResult>> Agree(
      const StepPosition& position, const absl::StatusOr<BatchResult>& own) = 0;

  /// Replaces the values, of which all ranks have as many, by their sums over
  /// all ranks: each is rank 0's plus rank 1's plus rank 2's and so on, rounded
  /// after each addition, so that sums are equal in every bit everywhere.
  virtual absl::Status Sum(absl::Span<float> values) = 0;

  /// Makes all calls of this rank, now and later, return `why`, which is an
  /// error; calls of others then return errors, too.
  virtual void End(const absl::Status& why) = 0;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_RANK_GROUP_H_
