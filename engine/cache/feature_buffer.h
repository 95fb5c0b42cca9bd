#ifndef HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_
#define HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/cache/slot_arena.h"
#include "engine/cache/slot_table.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// The feature buffer of GNNDrive (section 4.2, Algorithm 1): rows of nodes in
/// slots, shared by the batches that need them, loaded once however many do,
/// and kept as long as their slot is not needed for others.
///
/// Differs from the algorithm as printed, which counts a reference in one loop
/// and finds the slot in a later one, so that another extractor could wait for
/// an entry without a slot, or take the slot of an entry between its lookup and
/// its claim: here both are one transition (SlotTable::Claim), and a claimed
/// row never changes its slot. And loads may fail: all who wait learn why.
///
/// Thread-safe. Batches that claim at the same time must not each hold what the
/// other needs: with one that claims at a time (ClaimTurns), as many slots as
/// the largest batch has rows rule that out.
class FeatureBuffer {
 public:
  class Pins;

  /// REQUIRES: at most SlotTable::kMaxSlots slots.
  explicit FeatureBuffer(SlotArena arena);

  FeatureBuffer(const FeatureBuffer&) = delete;
  FeatureBuffer& operator=(const FeatureBuffer&) = delete;

  int64_t num_slots() const { return arena_.num_slots(); }
  const SlotArena& arena() const { return arena_; }

  /// Slots without references.
  int64_t num_standby() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  SlotArena arena_;
  mutable absl::Mutex mutex_;
  SlotTable table_ ABSL_GUARDED_BY(mutex_);
  // Signalled when slots stand by again, after none did.
  absl::CondVar released_;
  // Signalled when a row that somebody awaits was loaded, or could not be.
  absl::CondVar loaded_;
};

/// One batch's references: its node alias list. Gives them back when destroyed;
/// rows that it was to load and has not then count as failed, so that nobody
/// waits for them in vain. Move-only; single-owner. The buffer must outlive it.
class FeatureBuffer::Pins {
 public:
  /// Holds nothing.
  Pins() = default;
  explicit Pins(FeatureBuffer& buffer) : buffer_(&buffer) {}
  Pins(Pins&& other) noexcept;
  Pins& operator=(Pins&& other) noexcept;
  ~Pins();

  /// Claims the rows of `nodes` that are not yet claimed, in order, until all
  /// are or no slot stands by; true if all are. Call with the same nodes until
  /// then. Sets missing() to what the caller must load before it claims again
  /// or waits for anything. REQUIRES: nothing is left to load.
  bool Claim(absl::Span<const store::NodeId> nodes);

  /// The slot of each node claimed so far.
  absl::Span<const int64_t> slots() const { return slots_; }

  /// Positions in slots() of the rows to load.
  absl::Span<const int64_t> missing() const { return missing_; }

  /// Rows that this batch had to load, missing() included.
  int64_t num_missed() const { return num_missed_; }

  /// The row of missing()[index] has arrived: copies it into its slot. Once for
  /// each. All may use it soon, at the latest after FinishLoading. Never waits
  /// for others.
  void Load(size_t index, const std::byte* row);

  /// All of missing() has been loaded.
  void FinishLoading();

  /// Gives up what is left to load; who waits for it gets `error`.
  void FailLoading(const absl::Status& error);

  /// Blocks until a slot stands by; CANCELLED if `stop` is requested.
  absl::Status AwaitSlot(std::stop_token stop);

  /// Blocks until the rows that others load are there. The error of the first
  /// that could not be loaded; CANCELLED if `stop` is requested.
  absl::Status AwaitRows(std::stop_token stop);

  /// Gives all references back, as destruction does.
  void Release();

 private:
  void PublishArrived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(buffer_->mutex_);

  FeatureBuffer* buffer_ = nullptr;
  std::vector<int64_t> slots_;
  std::vector<int64_t> missing_;
  // Slots whose rows have arrived, not yet published.
  std::vector<int64_t> arrived_;
  // The wait list: slots that others are loading.
  std::vector<int64_t> awaited_;
  int64_t num_missed_ = 0;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_
