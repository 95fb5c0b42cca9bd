#ifndef HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_
#define HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cache/feature_buffer.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// How batches take turns at claiming: by ClaimTurns, or without.
enum class ModelTurns { kByNumber, kAny, kNone };

/// A case for the model checker.
struct FeatureBufferCase {
  std::string name;
  std::vector<std::vector<store::NodeId>> batches;
  int64_t slots = 0;
  int extractors = 2;
  /// Order of claims; with kByNumber batches are also assembled by number.
  ModelTurns turns = ModelTurns::kByNumber;
  int failing_reads = 0;
};

/// A model of FeatureBuffer for model checking: one state of extractors, an
/// assembler (which is also the releaser) and failing reads, and the states
/// that can follow. A step is a transition of SlotTable, which FeatureBuffer
/// makes under its lock, in the order of its protocol; a thread that would wait
/// on a condition variable sleeps until a transition says to wake somebody. A
/// value.
class FeatureBufferModel {
 public:
  explicit FeatureBufferModel(const FeatureBufferCase& parameters)
      : case_(&parameters),
        table_(parameters.slots),
        bytes_(parameters.slots, SlotTable::kNoNode),
        batches_(parameters.batches.size()),
        failing_reads_(parameters.failing_reads) {}

  /// Every state that one step leads to.
  std::vector<FeatureBufferModel> Successors() const;

  bool Ended() const;

  int NumFailed() const;

  /// Key of the state: equal for states that cannot be told apart.
  std::string Key() const;

  /// Expects the invariants of every state.
  void Check() const;

 private:
  enum class Phase {
    kQueued,
    kWaitsForTurn,
    kClaims,
    kLoads,
    kWaitsForSlot,
    kExtracted,
    kWaitsForRows,
    kReleases,
    kEnded,
  };

  struct Batch {
    Phase phase = Phase::kQueued;
    bool asleep = false;
    bool failed = false;
    std::vector<int64_t> slots;
    std::vector<int64_t> missing;  // Slots to load.
    std::vector<int64_t> arrived;  // Loaded, not yet published.
    std::vector<int64_t> awaited;  // Slots that others load.
    size_t released = 0;
  };

  void CheckSlot(int64_t slot, int64_t loaders) const;
  bool CanStep(size_t b) const;
  int NumExtracting() const;
  bool AssemblerIsFree() const;
  void Step(size_t b);
  void ClaimOne(size_t b);
  bool AllClaimed(size_t b) const;
  void PassTurn();
  void LoadOne(size_t b, size_t index);
  void PublishArrived(size_t b);
  void FailRead(size_t b);
  void AwaitOne(size_t b);
  void GiveUp(size_t b);
  void ReleaseOne(size_t b);
  void End(size_t b);
  void Wake(Phase phase);

  const FeatureBufferCase* case_;
  SlotTable table_;
  // Node whose row is in each slot.
  std::vector<store::NodeId> bytes_;
  std::vector<Batch> batches_;
  bool turn_taken_ = false;
  size_t next_turn_ = 0;
  size_t next_consumed_ = 0;
  int failing_reads_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_
