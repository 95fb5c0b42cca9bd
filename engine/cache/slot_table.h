#ifndef HEARTH_ENGINE_CACHE_SLOT_TABLE_H_
#define HEARTH_ENGINE_CACHE_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/cache/node_index.h"
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

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_SLOT_TABLE_H_
