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

/// A table of the row in each slot and of its users: the bookkeeping of
/// GNNDrive's feature buffer (section 4.2): mapping table, reverse mapping,
/// reference counts, valid bits and the standby list. Knows no bytes, no
/// threads and no waiting; each method is one transition. Thread-compatible: a
/// FeatureBuffer guards it, a test steps it through all interleavings.
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
/// reused. Others never change their node, so who holds a reference knows the
/// slot for good.
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

  /// Takes a reference to the row of `node`, and a slot if it has none. Looking
  /// up and claiming are one transition: no one else can take the slot, or
  /// begin to load the same node, in between.
  Claimed Claim(store::NodeId node);

  /// The row of `slot` is there. True if somebody awaits it. REQUIRES:
  /// kLoading, and the caller was told kMustLoad.
  bool Publish(int64_t slot);

  /// It could not be loaded: `error` is for those who await it. The next claim
  /// of the node loads it anew. True if somebody awaits it. REQUIRES: as
  /// Publish.
  bool Fail(int64_t slot, absl::Status error);

  /// Whether `slot` is still being loaded; if so, Publish or Fail will say that
  /// somebody awaits it. REQUIRES: the caller holds a reference.
  bool Await(int64_t slot);

  /// Gives a reference back. True if slots stand by again, after none did.
  /// REQUIRES: the caller holds one, and has published or failed what it loads.
  bool Release(int64_t slot);

  /// Why the loading of a kFailed slot failed.
  const absl::Status& error(int64_t slot) const;

  /// Asks the processor for what Claim(node) looks at first.
  void Prefetch(store::NodeId node) const;

  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t num_standby() const { return num_standby_; }
  State state(int64_t slot) const { return slots_[slot].state; }
  int64_t refs(int64_t slot) const { return slots_[slot].refs; }
  /// The reverse mapping; kNoNode if it holds or loads none.
  store::NodeId node(int64_t slot) const { return slots_[slot].node; }
  bool awaited(int64_t slot) const { return slots_[slot].awaited; }
  /// The slot that holds or loads `node`, or -1.
  int64_t Find(store::NodeId node) const;
  /// In the order in which they will be reused. For tests.
  std::vector<int64_t> StandbySlots() const;

  /// Bytes of bookkeeping for so many slots.
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

  // Tells the node of a slot that holds or loads one.
  auto NodeOf() const {
    return [this](int32_t slot) { return slots_[slot].node; };
  }

  std::vector<Slot> slots_;
  int32_t first_standby_ = -1;
  int32_t last_standby_ = -1;
  int64_t num_standby_ = 0;
  // The mapping table.
  NodeIndex index_;
  // Errors of kFailed slots, by row.
  absl::flat_hash_map<int64_t, absl::Status> errors_;
};

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
