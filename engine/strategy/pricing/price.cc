#include "engine/strategy/pricing/price.h"

#include <algorithm>

namespace hearth::strategy {

namespace {

// Rows are read in whole sectors of this size.
constexpr double kSectorBytes = 512;
// Reads are made by the processors that sample, copy and train, too: the lesser
// of both times overlaps with the greater by this share only. On two processors
// and a disk of 59,000 reads a second, an epoch of gnndrive took 34 s where the
// reads alone take 22 s and the processors 12 s.
constexpr double kOverlap = 0.5;

}  // namespace

double Price::Total(const Workload& work) const {
  double seconds = prepare_seconds +
                   first_epoch_seconds * std::min(1.0, work.epochs) +
                   epoch_seconds * std::max(0.0, work.epochs - 1);
  if (work.validates) seconds += validation_seconds * work.epochs;
  if (work.tests) seconds += test_seconds;
  // Plans of later periods are made while the period before is trained.
  if (disk_bytes > 0) {
    seconds += (work.periods - 1) *
               std::max(0.0, prepare_seconds -
                                 epoch_seconds * work.epochs / work.periods);
  }
  return seconds;
}

double PricedJob::DistinctBatches() const {
  double batches = work.training.batches * work.distinct_epochs;
  if (work.validates) batches += work.validation.batches;
  if (work.tests) batches += work.test.batches;
  return batches;
}

double PassSeconds(const PricedJob& job, const PassLoad& load,
                   const StrategyWork& work) {
  const Workload& of = job.work;
  const double sample = work.samples ? load.batches * of.sample_seconds : 0;
  const double copy =
      load.batches * of.rows *
      job.disk.CopySeconds(static_cast<uint64_t>(job.basis.row_bytes()));
  const double train = load.batches * load.step_seconds;
  const double samplers = std::min(job.basis.pipeline.samplers, job.processors);
  const double assemblers = std::min(work.assemblers, job.processors);
  const double busy = sample + copy + work.processor_seconds +
                      train * std::min(of.train_threads, job.processors);
  const double compute = busy / job.processors;
  const double longest =
      std::max({sample / samplers, copy / assemblers, train,
                std::max(work.read_seconds, compute) +
                    (1 - kOverlap) * std::min(work.read_seconds, compute)});
  if (load.batches <= 0) return longest;
  const double alone =
      (sample + copy + train + work.read_seconds) / std::max(1.0, load.batches);
  return longest + std::max(0.0, alone - longest / std::max(1.0, load.batches));
}

RowReads ReadRows(const PricedJob& job, double rows, int threads, int depth) {
  const double bytes = std::max(kSectorBytes, job.row_bytes());
  const double rate =
      job.disk.ReadsPerSecond(threads, depth, static_cast<uint64_t>(bytes));
  double processor = job.disk.seconds_per_read;
  if (job.checks_rows) {
    processor += job.row_bytes() * job.disk.checksum_seconds_per_byte;
  }
  return {.seconds = rows / rate,
          .processor_seconds = rows * processor,
          .bytes = rows * bytes};
}

}  // namespace hearth::strategy
