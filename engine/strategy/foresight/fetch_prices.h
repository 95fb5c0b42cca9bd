#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_FETCH_PRICES_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_FETCH_PRICES_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/machine/disk_profile.h"
#include "engine/strategy/foresight/generation_files.h"

/// What fetching the rows of a generation costs (FetchPrices).

namespace hearth::strategy {

/// What a disk was measured to do.
struct DiskRates {
  /// Bytes per second, in sequence.
  double read = 1.5e9;
  double write = 1e9;
  /// Pages of 4 KiB per second, in random order.
  double pages = 100'000;
};

/// The rates of a measured disk, for direct reads of rows of `row_bytes` by
/// `threads` that each keep `depth` in flight.
DiskRates RatesOf(const machine::DiskProfile& disk, int threads, int depth,
                  uint64_t row_bytes);

/// Bytes that a generation moves.
struct FetchNeed {
  /// Of all features.
  uint64_t feature_bytes = 0;
  /// Rows that are read, and bytes of a row.
  int64_t rows = 0;
  int64_t row_bytes = 0;
};

/// Seconds of fetching rows, by the rates of a disk and by what earlier
/// generations took. Thread-safe.
class FetchPrices {
 public:
  void SetRates(const DiskRates& rates) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Packs: a scan of the features, and the rows written and read once.
  /// Direct: a page for each row, or as many as it takes.
  double Seconds(Fetching fetching, const FetchNeed& need) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether a scan of the features is cheaper than reading rows directly,
  /// where rows go to memory.
  bool ScanIsCheaper(const FetchNeed& need) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// The cheaper way. The way of the generation before is given up only for at
  /// most 0.8 times its price.
  Fetching Choose(const FetchNeed& need) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Corrects the price of `fetching` by the square root of what it took over
  /// what it was to take; in all by at most 16 times.
  void Correct(Fetching fetching, double predicted, double measured)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  double SecondsLocked(Fetching fetching, const FetchNeed& need) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  DiskRates rates_ ABSL_GUARDED_BY(mutex_);
  // By Fetching.
  double factors_[2] ABSL_GUARDED_BY(mutex_) = {1, 1};
  bool has_chosen_ ABSL_GUARDED_BY(mutex_) = false;
  Fetching chosen_ ABSL_GUARDED_BY(mutex_) = Fetching::kPacked;
};

/// Measures how long rows are read directly, by any number of threads at a
/// time: the seconds in which at least one of them reads. Thread-safe.
class DirectReads {
 public:
  void Begin(double now) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Ends what Begin began, after which `rows` more rows are there.
  void End(double now, int64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Corrects the price of direct reads by what they took, if there were enough
  /// of them to tell.
  void Correct(int64_t row_bytes, FetchPrices& prices) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  int reading_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the first of those who read now began.
  double since_ ABSL_GUARDED_BY(mutex_) = 0;
  double seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_FETCH_PRICES_H_
