#ifndef HEARTH_ENGINE_STRATEGY_PRICING_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_PRICING_PRICE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/machine/disk_profile.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pricing/workload.h"

/// What a job costs with a strategy, in seconds. Each strategy's price follows
/// from a Workload and a machine::DiskProfile alone, without a sample or a
/// measurement of its own: simple formulas, so that all strategies can be
/// priced in a moment and by the same measures.

namespace hearth::strategy {

/// Seconds of a job with a strategy.
struct Price {
  /// Before the first batch: loading, ranking, making plans; 0 for what exists.
  double prepare_seconds = 0;
  /// The training pass of the first epoch, and of a later one.
  double first_epoch_seconds = 0;
  double epoch_seconds = 0;
  double validation_seconds = 0;
  double test_seconds = 0;
  /// Reads of a later training epoch.
  double bytes_read = 0;
  double read_ops = 0;
  /// Bytes of the plan on disk, 0 without one, and whether it exists.
  double disk_bytes = 0;
  bool plan_exists = false;

  /// Seconds of the whole job.
  double Total(const Workload& work) const;
};

/// What a price is computed from. All of it outlives the call.
struct PricedJob {
  const Workload& work;
  const machine::DiskProfile& disk;
  /// Processors that the process may keep busy.
  int processors = 1;
  /// Bytes of files that the page cache is likely to keep beside the job.
  uint64_t page_cache_bytes = 0;
  /// With the threads that the strategy gets.
  const MemoryBasis& basis;
  /// Whether rows that are read one by one are checked.
  bool checks_rows = false;
  /// Where plans are looked for, by the passes that they are for; null: there
  /// are none.
  io::FileSystem* files = nullptr;
  plan::PlanStore* plans = nullptr;
  /// As for Strategy::Prepare.
  absl::Span<const Pass> passes = {};

  double row_bytes() const { return static_cast<double>(basis.row_bytes()); }
  double feature_bytes() const {
    return static_cast<double>(basis.feature_bytes());
  }
  double topology_bytes() const {
    return static_cast<double>(basis.indptr_bytes() + basis.indices_bytes());
  }
  /// Different batches of a period, those of validation and test included.
  double DistinctBatches() const;
};

/// The work of a strategy for the batches of a pass, apart from sampling and
/// training.
struct StrategyWork {
  /// Seconds that the disk takes.
  double read_seconds = 0;
  /// Seconds that processors take to read and check, all threads together.
  double processor_seconds = 0;
  /// Whether batches are sampled while the pass runs.
  bool samples = true;
  /// Threads that copy rows.
  int assemblers = 1;
};

/// Seconds of a pass whose stages work on different batches at the same time:
/// the slowest decides, or the disk, or the processors if they have less time
/// than all stages compute; the first batch passes through all stages alone.
double PassSeconds(const PricedJob& job, const PassLoad& load,
                   const StrategyWork& work);

/// Seconds, and processor seconds, of random reads of `rows` rows, each by a
/// read of its own, by `threads` with `depth` in flight.
struct RowReads {
  double seconds = 0;
  double processor_seconds = 0;
  double bytes = 0;
};
RowReads ReadRows(const PricedJob& job, double rows, int threads, int depth);

/// Fills in the passes of a price: those of `work(rows missed by the pass)`,
/// where a training epoch misses `misses`, and evaluations as many a batch as a
/// later epoch.
template <typename WorkOf>
void PricePasses(const PricedJob& job, const MissCurves::Misses& misses,
                 const WorkOf& work_of, Price& price) {
  const Workload& work = job.work;
  const auto seconds = [&](const PassLoad& load, double missed) {
    return PassSeconds(job, load, work_of(missed, load));
  };
  const double batches = work.training.batches > 0 ? work.training.batches : 1;
  price.first_epoch_seconds = seconds(work.training, misses.first);
  price.epoch_seconds = seconds(work.training, misses.later);
  price.validation_seconds = seconds(
      work.validation, misses.later * work.validation.batches / batches);
  price.test_seconds =
      seconds(work.test, misses.later * work.test.batches / batches);
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PRICING_PRICE_H_
