#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATIONS_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATIONS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/strategy/foresight/generation.h"
#include "engine/strategy/foresight/row_slots.h"
#include "engine/strategy/foresight/timeline.h"
#include "engine/strategy/strategy.h"

/// The generations of a timeline while passes run (Generations).

namespace hearth::strategy {

/// Generations that are made by one thread while others deliver them: at most
/// one is ready beyond those that are needed. Thread-safe.
class Generations {
 public:
  /// `context` outlives the object.
  Generations(const ForesightContext& context, Timeline timeline)
      : timeline_(std::move(timeline)),
        maker_(context, timeline_),
        free_shards_(context.free_shards) {}
  Generations(const Generations&) = delete;
  Generations& operator=(const Generations&) = delete;

  const Timeline& timeline() const { return timeline_; }

  /// As GenerationMaker::ContinueAt for the pass of the timeline that comes
  /// next; false where it is absent. Call before any other function.
  absl::StatusOr<bool> Continue(const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The position at which passes go on.
  int64_t position() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes the first generation, unless it is made or there is none to make.
  /// `fill` as for GenerationMaker::MakeNext.
  absl::StatusOr<PreparationReport> MakeFirst(
      RowSlots* fill, const PreparationListener& listener,
      const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until there is use for another generation, and makes it. ABORTED
  /// after Abandon; the report's `more` is false if there is none to make, and
  /// with ForesightContext::free_shards, with which only the first one is made
  /// ahead.
  absl::StatusOr<PreparationReport> MakeAhead(
      const PreparationListener& listener, const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The generation with `position`: waits while it is made, and makes it if
  /// nobody does, with ForesightContext::free_shards not before passes go on at
  /// its beginning. NOT_FOUND if it was released.
  absl::StatusOr<std::shared_ptr<const Generation>> At(
      int64_t position, const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether `position` is in a generation that is ready, or in the next one.
  bool IsNear(int64_t position) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Tells that passes go on at `position`: releases the generations before it.
  void GoOnAt(int64_t position) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Ends making generations; returns when none is being made. Call nothing but
  /// MakeAhead afterwards.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Makes the next generation without the lock. REQUIRES: nobody else does.
  absl::StatusOr<PreparationReport> Make(RowSlots* fill,
                                         const PreparationListener& listener,
                                         const std::stop_token& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasReady(int64_t position) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Timeline timeline_;
  // Used by the thread that has set is_making_.
  GenerationMaker maker_;
  const std::function<void()> free_shards_;

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  bool is_making_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  // Stops the maker.
  std::stop_source abandon_;
  // The end of the last generation that was made; before, where the first one
  // begins.
  int64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_made_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t position_ ABSL_GUARDED_BY(mutex_) = 0;
  // Generations that are not released, in their order.
  std::deque<std::shared_ptr<const Generation>> ready_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATIONS_H_
