#ifndef HEARTH_ENGINE_CACHE_CLAIM_TURNS_H_
#define HEARTH_ENGINE_CACHE_CLAIM_TURNS_H_

#include <cstdint>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace hearth::cache {

/// Lets one batch at a time claim rows in a FeatureBuffer: in the order of
/// their numbers, or whichever comes first.
///
/// Why this rules out a deadlock as soon as any one batch fits the slots: who
/// has the turn may wait for slots. All others that hold references hold all
/// they need and wait at most for rows that are being loaded, by each other or
/// by the one with the turn, who loads what it has claimed before it waits. So
/// all of them end, if they are consumed in an order that does not wait for the
/// one with the turn: in order of their numbers if turns are, else as they
/// come.
///
/// Thread-safe.
class ClaimTurns {
 public:
  enum class Order { kByNumber, kAny };

  /// Having the turn; passes it on when destroyed. Move-only.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(other.turns_) {
      other.turns_ = nullptr;
    }
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    friend class ClaimTurns;
    explicit Turn(ClaimTurns* turns) : turns_(turns) {}
    ClaimTurns* turns_;
  };

  /// With kByNumber, `first` is the number of the first turn.
  explicit ClaimTurns(Order order, int64_t first = 0)
      : order_(order), next_(first) {}

  /// Blocks until it is the turn of batch `number`; CANCELLED if `stop` is
  /// requested before. With kByNumber each number takes one turn; a batch that
  /// gives up must stop all others.
  absl::StatusOr<Turn> Take(int64_t number, std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_);

  const Order order_;
  absl::Mutex mutex_;
  absl::CondVar passed_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of the batch whose turn it is, or will be.
  int64_t next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_CLAIM_TURNS_H_
