#include "engine/strategy/superbatch/superbatch_price.h"

#include <algorithm>

#include "engine/cache/direct_cache.h"

namespace hearth::strategy {

namespace {

// Processor seconds of planning an access, of copying a row between batch and
// cache, and of handling a byte of a sample that is written and read again.
constexpr double kPlanSeconds = 1.5e-7;
constexpr double kSampleSecondsPerByte = 1e-9;
// Processor seconds of a list that is read, or found in the cache, apart from
// its read.
constexpr double kListSeconds = 2e-7;

}  // namespace

Price PriceSuperbatch(const SuperbatchOptions& options, bool by_parts,
                      const PricedJob& job) {
  const Workload& of = job.work;
  const MemoryBasis& basis = job.basis;
  const auto nodes = static_cast<double>(basis.num_nodes());
  const auto rows = static_cast<double>(cache::DirectCache::Capacity(
      options.cpu_cache_bytes, basis.num_nodes(), basis.row_bytes()));
  // Rows and lists have the memory in turn, so that each epoch begins anew.
  const double cold = of.misses->Optimal(rows).first;
  const MissCurves::Misses misses = {.first = cold, .later = cold};
  // Lists that the neighbor cache has no place for. Their popularity is like
  // that of rows.
  const double held =
      std::min(1.0, static_cast<double>(options.NeighborBytes()) /
                        static_cast<double>(basis.all_lists_bytes()));
  const double lists_missed = held >= 1
                                  ? 0
                                  : of.misses->Static(held * nodes).later /
                                        std::max(1.0, of.misses->accesses());
  const double list_bytes =
      std::min(static_cast<double>(options.NeighborBytes()),
               static_cast<double>(basis.all_lists_bytes()));
  const double stream = job.disk.BytesPerSecond(1);
  const auto inspect = [&](const PassLoad& load) {
    const int samplers = basis.pipeline.samplers;
    const double samples = load.batches * of.SampleBytes();
    const double read = load.batches * of.lists * lists_missed;
    double disk = samples / job.disk.write_bytes_per_second;
    double busy = load.batches * (of.sample_seconds + of.lists * kListSeconds) +
                  samples * kSampleSecondsPerByte;
    if (by_parts) {
      disk += (job.topology_bytes() - list_bytes * held) / stream;
    } else {
      disk += read / job.disk.ReadsPerSecond(samplers, options.io_depth, 0);
      busy += read * job.disk.seconds_per_read;
    }
    // The neighbor cache is loaded first, the row cache filled behind.
    const double switching =
        (list_bytes + std::min(rows * job.row_bytes(), job.feature_bytes())) /
        stream;
    return std::max(disk, busy / std::min(samplers, job.processors)) +
           load.batches * of.rows * kPlanSeconds + switching;
  };
  Price price;
  const int threads = basis.pipeline.extractors;
  PricePasses(
      job, misses,
      [&](double missed, const PassLoad& load) {
        const RowReads reads = ReadRows(job, missed, threads, options.io_depth);
        return StrategyWork{
            .read_seconds = reads.seconds,
            .processor_seconds =
                reads.processor_seconds +
                load.batches * of.SampleBytes() * kSampleSecondsPerByte,
            .samples = false,
            .assemblers = threads};
      },
      price);
  price.first_epoch_seconds += inspect(of.training);
  price.epoch_seconds += inspect(of.training);
  price.validation_seconds += inspect(of.validation);
  price.test_seconds += inspect(of.test);
  // The neighbor cache's file is made once.
  price.prepare_seconds = job.topology_bytes() / stream;
  price.read_ops = misses.later;
  price.bytes_read = misses.later * job.row_bytes() + list_bytes;
  return price;
}

}  // namespace hearth::strategy
