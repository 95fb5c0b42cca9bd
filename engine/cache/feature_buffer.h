#ifndef HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_
#define HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/cache/node_index.h"
#include "engine/cache/row_memory.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// The bookkeeping of GNNDrive's feature buffer (section 4.2): mapping table,
/// reverse mapping, reference counts, valid bits and the standby list of slots.
/// Knows no bytes, no threads and no waiting; each method is one transition.
/// Thread-compatible: FeatureBuffer guards it, a test steps it through all
/// interleavings.
///
/// A slot's life (`refs` counts claims that were not released):
///
///   kEmpty    Claim of a new node            -> kLoading, refs 1
///   kLoading  Claim of its node              -> kLoading, refs + 1
///             Publish                        -> kValid
///             Fail (its node is forgotten)   -> kFailed
///   kValid    Claim of its node              -> kValid, refs + 1
///             Release of the last reference  -> kValid, last to be reused
///             Claim of a new node, if it is the least recently used without
///             references (its node is forgotten)  -> kLoading, refs 1
///   kFailed   Release of the last reference  -> kEmpty, first to be reused
///
/// Slots without references stand by, in the order in which they will be
/// reused. A slot with references never changes its node: the holder of a
/// reference may keep the slot's number.
///
/// The mapping table is a hash table over the slots in use, not an array over
/// all nodes: its memory follows the budget, not the graph.
class SlotTable {
 public:
  enum class State : uint8_t { kEmpty, kLoading, kValid, kFailed };

  enum class Outcome {
    kValid,     // The row is there.
    kLoading,   // Another claimer loads it.
    kMustLoad,  // The caller must load it, then Publish or Fail.
    kNoSlot,    // Every slot has references; nothing was claimed.
  };
  struct Claimed {
    Outcome outcome;
    int64_t slot;  // -1 with kNoSlot.
  };

  static constexpr int64_t kMaxSlots = INT32_MAX;
  static constexpr store::NodeId kNoNode = -1;

  /// All slots stand by, empty. REQUIRES: 0 <= num_slots <= kMaxSlots.
  explicit SlotTable(int64_t num_slots);

  /// Takes a reference to the row of `node`, and a slot if the row has none.
  /// Lookup and claim are one transition: nobody can take the slot, or begin to
  /// load the same node, in between.
  Claimed Claim(store::NodeId node);

  /// The row of `slot` has been loaded. True if somebody awaits it. REQUIRES:
  /// kLoading, and the caller was told kMustLoad.
  bool Publish(int64_t slot);

  /// The row of `slot` could not be loaded: whoever awaits it gets `error`. The
  /// next claim of the node loads the row again. True if somebody awaits it.
  /// REQUIRES: as Publish.
  bool Fail(int64_t slot, absl::Status error);

  /// Whether `slot` is still being loaded; if so, Publish or Fail will return
  /// true. REQUIRES: the caller holds a reference.
  bool Await(int64_t slot);

  /// Gives a reference back. True if no slot stood by before and one does now.
  /// REQUIRES: the caller holds a reference, and is not loading the slot.
  bool Release(int64_t slot);

  /// The error of a kFailed slot.
  const absl::Status& error(int64_t slot) const;

  /// Prefetches the memory that Claim(node) reads first.
  void Prefetch(store::NodeId node) const;

  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t num_standby() const { return num_standby_; }
  State state(int64_t slot) const { return slots_[slot].state; }
  int64_t refs(int64_t slot) const { return slots_[slot].refs; }
  /// Node whose row `slot` holds or loads, or kNoNode (the reverse mapping).
  store::NodeId node(int64_t slot) const { return slots_[slot].node; }
  bool awaited(int64_t slot) const { return slots_[slot].awaited; }
  /// The slot that holds or loads `node`, or -1.
  int64_t Find(store::NodeId node) const;
  /// Standby slots in the order in which they will be reused. For tests.
  std::vector<int64_t> StandbySlots() const;

  /// Bytes of bookkeeping for `num_slots` slots.
  static uint64_t MemoryBytes(int64_t num_slots);

 private:
  struct Slot {
    store::NodeId node = kNoNode;
    int32_t refs = 0;
    State state = State::kEmpty;
    bool awaited = false;
    // Neighbors in the standby list; not set while there are references.
    int32_t previous = -1;
    int32_t next = -1;
  };

  // The standby list, doubly linked.
  void PushFront(int32_t slot);
  void PushBack(int32_t slot);
  void Unlink(int32_t slot);

  // Function from a slot to the node whose row it holds or loads.
  auto NodeOf() const {
    return [this](int32_t slot) { return slots_[slot].node; };
  }

  std::vector<Slot> slots_;
  int32_t first_standby_ = -1;
  int32_t last_standby_ = -1;
  int64_t num_standby_ = 0;
  // The mapping table.
  NodeIndex index_;
  // Errors of kFailed slots, by slot.
  absl::flat_hash_map<int64_t, absl::Status> errors_;
};

/// Turns by which one batch at a time claims rows in a FeatureBuffer: in the
/// order of the batches' numbers, or in any order.
///
/// With turns there is no deadlock if every single batch fits the slots. Only
/// the batch with the turn waits for slots. Every other batch with references
/// has claimed all its rows, and waits at most for rows that are being loaded:
/// by each other, or by the batch with the turn, which loads what it has
/// claimed before it waits. So the others end, if they are consumed in an order
/// that does not wait for the batch with the turn: by number if turns are by
/// number, else as they are ready.
///
/// Thread-safe.
class ClaimTurns {
 public:
  enum class Order { kByNumber, kAny };

  /// The turn; passed on when destroyed. Move-only.
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

  /// With kByNumber, the first turn is for batch `first`.
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
  // Number of the batch whose turn it is, or will be next.
  int64_t next_ ABSL_GUARDED_BY(mutex_);
};

/// The feature buffer of GNNDrive (section 4.2, Algorithm 1): rows of nodes in
/// slots, shared by the batches that need them, loaded once however many
/// batches do, and kept until the slot is needed for another row.
///
/// Differs from the algorithm as printed, which counts a reference in one loop
/// and finds the slot in a later one, so that another extractor could wait for
/// an entry without a slot, or take the slot of an entry between its lookup and
/// its claim: here both are one transition (SlotTable::Claim), and a claimed
/// row never changes its slot. And loads may fail: all who wait learn why.
///
/// Thread-safe. Batches that claim at the same time could each hold slots that
/// the other needs: let one batch claim at a time (ClaimTurns), and have at
/// least as many slots as the largest batch has rows.
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
  // Signalled when the standby list is no longer empty.
  absl::CondVar released_;
  // Signalled when an awaited row was loaded, or failed to load.
  absl::CondVar loaded_;
};

/// References of one batch: its node alias list. Gives them back when
/// destroyed; rows that it was told to load and has not then count as failed,
/// so that nobody waits for them in vain. Move-only; single-owner. The buffer
/// must outlive it.
class FeatureBuffer::Pins {
 public:
  /// Holds nothing.
  Pins() = default;
  explicit Pins(FeatureBuffer& buffer) : buffer_(&buffer) {}
  Pins(Pins&& other) noexcept;
  Pins& operator=(Pins&& other) noexcept;
  ~Pins();

  /// Claims the rows of `nodes` that are not yet claimed, in order, while slots
  /// stand by; true if all are claimed. If false, call again with the same
  /// nodes. Sets missing() to the rows that the caller must load before it
  /// claims again or waits for anything. REQUIRES: nothing is left to load.
  bool Claim(absl::Span<const store::NodeId> nodes);

  /// The slot of each node claimed so far.
  absl::Span<const int64_t> slots() const { return slots_; }

  /// Positions in slots() of the rows to load.
  absl::Span<const int64_t> missing() const { return missing_; }

  /// Rows that this batch had to load, missing() included.
  int64_t num_missed() const { return num_missed_; }

  /// Copies `row`, the row of missing()[index], into its slot. Call once for
  /// each index. Other batches may use the row soon, at the latest after
  /// FinishLoading. Never waits for others.
  void Load(size_t index, const std::byte* row);

  /// Publishes the rows. REQUIRES: all of missing() was loaded.
  void FinishLoading();

  /// Gives up the rows that are left to load; whoever waits for them gets
  /// `error`.
  void FailLoading(const absl::Status& error);

  /// Blocks until a slot stands by; CANCELLED if `stop` is requested.
  absl::Status AwaitSlot(std::stop_token stop);

  /// Blocks until all rows that others load are there. Returns the error of the
  /// first row that failed to load; CANCELLED if `stop` is requested.
  absl::Status AwaitRows(std::stop_token stop);

  /// Gives all references back, as destruction does.
  void Release();

 private:
  void PublishArrived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(buffer_->mutex_);

  FeatureBuffer* buffer_ = nullptr;
  std::vector<int64_t> slots_;
  std::vector<int64_t> missing_;
  // Slots whose rows have arrived and are not published.
  std::vector<int64_t> arrived_;
  // The wait list: slots that others are loading.
  std::vector<int64_t> awaited_;
  int64_t num_missed_ = 0;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_FEATURE_BUFFER_H_
