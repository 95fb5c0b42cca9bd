#include "engine/strategy/gnndrive/gnndrive_price.h"

namespace hearth::strategy {

namespace {

// Processor seconds of finding a row in the buffer or taking a slot for it.
constexpr double kSlotSeconds = 1e-7;

}  // namespace

absl::StatusOr<Price> PriceGnndrive(const GnndriveOptions& options,
                                    const PricedJob& job) {
  const int threads = job.basis.pipeline.extractors;
  // The reserve of batches in flight serves later ones, too.
  const double reserve =
      options.staging_bytes > 0
          ? static_cast<double>(options.staging_bytes) / job.row_bytes()
          : job.work.rows * threads;
  const MissCurves::Misses misses = job.work.misses->Lru(
      static_cast<double>(options.cpu_cache_bytes) / job.row_bytes() + reserve);
  Price price;
  PricePasses(
      job, misses,
      [&](double missed, const PassLoad& load) {
        const RowReads reads = ReadRows(job, missed, threads, options.io_depth);
        return StrategyWork{
            .read_seconds = reads.seconds,
            .processor_seconds = reads.processor_seconds +
                                 load.batches * job.work.rows * kSlotSeconds,
            .assemblers = threads};
      },
      price);
  price.read_ops = misses.later;
  price.bytes_read =
      ReadRows(job, misses.later, threads, options.io_depth).bytes;
  return price;
}

}  // namespace hearth::strategy
