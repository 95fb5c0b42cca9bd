#ifndef HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_
#define HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cache/feature_buffer.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// How batches take turns at claiming (ClaimTurns, or none).
enum class ExtractionTurns { kByNumber, kAny, kNone };

/// The events of a case.
struct ExtractionCase {
  std::string name;
  std::vector<std::vector<store::NodeId>> batches;
  int64_t slots = 0;
  int extractors = 2;
  /// Who may claim when; batches are assembled by number with kByNumber.
  ExtractionTurns turns = ExtractionTurns::kByNumber;
  int failing_reads = 0;
};

/// Extractors, one assembler, which is the releaser, and failing reads: all
/// that is going on, and what can happen next. The steps are the transitions of
/// SlotTable, each of which FeatureBuffer makes under its lock, in the order of
/// its protocol; who would wait on a condition variable sleeps until a
/// transition says that somebody is to be woken. A value; for tests.
class ExtractionWorld {
 public:
  explicit ExtractionWorld(const ExtractionCase& parameters)
      : case_(&parameters),
        table_(parameters.slots),
        bytes_(parameters.slots, SlotTable::kNoNode),
        batches_(parameters.batches.size()),
        failing_reads_(parameters.failing_reads) {}

  /// Every world that one step leads to.
  std::vector<ExtractionWorld> Successors() const;

  bool Ended() const;

  int NumFailed() const;

  /// Equal for worlds that cannot be told apart.
  std::string Key() const;

  /// Checks what must hold in every state.
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

  const ExtractionCase* case_;
  SlotTable table_;
  // The node whose row is in each slot.
  std::vector<store::NodeId> bytes_;
  std::vector<Batch> batches_;
  bool turn_taken_ = false;
  size_t next_turn_ = 0;
  size_t next_consumed_ = 0;
  int failing_reads_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_FEATURE_BUFFER_MODEL_FIXTURE_H_
