#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_TIMELINE_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"

/// The shards of all passes of a job, one after the other, and how they are cut
/// into generations, which are prepared one by one.

namespace hearth::strategy {

/// Shards [begin, end) of a timeline, which are planned together, and what is
/// known while they are planned.
struct GenerationSpan {
  int64_t begin = 0;
  int64_t end = 0;
  /// The plan is made for shards [plan_begin, look_end): those of the
  /// generation, and look-ahead behind them. Where passes repeat, these are
  /// positions in the first repetition, so that all repetitions have its plans.
  int64_t plan_begin = 0;
  int64_t look_end = 0;
  /// Whether the cache is first filled with the rows needed first: at the
  /// beginning, and where passes repeat from their beginning on.
  bool fills = false;
  /// Whether it belongs to passes that repeat, and whether it is the last
  /// generation of a repetition.
  bool repeats = false;
  bool closes = false;
};

/// The shards of a sequence of passes, numbered by their position. Immutable.
class Timeline {
 public:
  /// `first_epochs`: passes in the first generation, above 0. `first_shard`:
  /// the shard at which the first pass begins.
  explicit Timeline(PassSequence sequence, double first_epochs = 0.5,
                    int64_t first_shard = 0);

  /// Passes of the longest generation.
  static constexpr int64_t kMostPasses = 8;
  /// Growth of generations: longer ones share scans of the features, but take
  /// longer until they are ready.
  static constexpr int64_t kGrowth = 4;

  const std::vector<Pass>& passes() const { return sequence_.passes; }
  /// Number of positions.
  int64_t size() const { return begins_.back(); }

  /// Position at which the pass begins that comes next.
  int64_t next() const { return begins_[sequence_.next]; }

  /// A shard of a pass.
  struct Place {
    /// Index in passes().
    size_t pass = 0;
    /// As in ShardsOf (sampling.h).
    int64_t shard = 0;
  };
  /// REQUIRES: 0 <= position < size().
  Place At(int64_t position) const;

  /// The first position, from `from` on, of a run of `pass` that has shard
  /// `shard`; absent if there is none.
  std::optional<int64_t> Find(const Pass& pass, int64_t shard,
                              int64_t from) const;
  /// Whether a run of passes()[pass] has positions from `from` on.
  bool Comes(size_t pass, int64_t from) const;
  /// Whether `pass` is one of passes().
  bool Knows(const Pass& pass) const;

  /// The passes that follow if `pass`, which is known, comes next although
  /// position `expected` was: the rest of the sequence behind the pass's next
  /// run, or, without one, the rest behind the expected position.
  PassSequence SequenceFrom(const Pass& pass, int64_t expected) const;

  /// The generation that begins at `begin`, with at most `most_shards`, a whole
  /// number of batches. The first has the shards of `first_epochs` passes, and
  /// looks ahead to the end of the last one; each later one has kGrowth times
  /// the shards that lie before it, and as many as the first, but at most those
  /// of kMostPasses passes, and a pass as look-ahead. A generation ends where
  /// passes repeat from their beginning on.
  /// REQUIRES: begin is 0 or the end of a generation.
  GenerationSpan GenerationAt(int64_t begin, int64_t most_shards) const;
  /// Where the last generation at or before `position` begins that fills the
  /// cache.
  int64_t CycleBegin(int64_t position) const;

 private:
  size_t RunAt(int64_t position) const;

  PassSequence sequence_;
  double first_epochs_ = 0.5;
  int64_t first_shard_ = 0;
  // [order.size() + 1] position of the first shard of each run.
  std::vector<int64_t> begins_;
  // Runs of the sequence that repeat from its beginning on, and how often they
  // are there, at least twice; without repetitions all runs, and 0.
  size_t cycle_runs_ = 0;
  size_t cycles_ = 0;
  // As CycleBegin for the positions behind all repetitions.
  int64_t rest_begin_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_TIMELINE_H_
