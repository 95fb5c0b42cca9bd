#include "engine/strategy/addressable/addressable_price.h"

#include <algorithm>
#include <cmath>

namespace hearth::strategy {

namespace {

constexpr double kPageBytes = 4096;
// Threads that read a file that is loaded.
constexpr int kLoaders = 4;
// Processor seconds of a page fault apart from its read.
constexpr double kFaultSeconds = 1e-6;

// Pages of the features that a pass with `rows` random ones touches.
double PagesOf(const PricedJob& job, double rows) {
  if (job.row_bytes() >= kPageBytes) {
    return rows * std::ceil(job.row_bytes() / kPageBytes);
  }
  const double pages = std::max(1.0, job.feature_bytes() / kPageBytes);
  return pages * (1 - std::pow(1 - std::min(1.0, 1 / pages), rows));
}

}  // namespace

absl::StatusOr<Price> PriceAddressable(const MemoryOptions& /*options*/,
                                       const PricedJob& job) {
  Price price;
  const double bytes = job.feature_bytes() + job.topology_bytes();
  price.prepare_seconds = std::max(bytes / job.disk.BytesPerSecond(kLoaders),
                                   bytes *
                                       (job.disk.checksum_seconds_per_byte +
                                        job.disk.memory_seconds_per_byte) /
                                       std::min(kLoaders, job.processors));
  PricePasses(
      job, {},
      [&](double /*missed*/, const PassLoad& /*load*/) {
        return StrategyWork{.assemblers = job.basis.pipeline.extractors};
      },
      price);
  return price;
}

absl::StatusOr<Price> PriceAddressable(const MmapOptions& /*options*/,
                                       const PricedJob& job) {
  // Rows that the page cache keeps, each with its page.
  const double cached_share =
      std::min(1.0, static_cast<double>(job.page_cache_bytes) /
                        std::max(1.0, job.feature_bytes()));
  const double kept = cached_share < 1
                          ? static_cast<double>(job.page_cache_bytes) /
                                std::max(kPageBytes, job.row_bytes())
                          : static_cast<double>(job.basis.num_nodes());
  const MissCurves::Misses rows = job.work.misses->Lru(kept);
  // Pages to read. Where all stay, later epochs lack those that the first has
  // not touched.
  MissCurves::Misses misses = {
      .first = PagesOf(job, rows.first),
      .later = std::max(rows.later, PagesOf(job, rows.later))};
  if (cached_share >= 1) {
    misses.later = PagesOf(job, rows.first + rows.later) - misses.first;
  }
  Price price;
  PricePasses(
      job, misses,
      [&](double pages, const PassLoad& load) {
        const int threads = job.basis.pipeline.extractors;
        StrategyWork work = {.assemblers = threads};
        // The threads that wait for pages are those that copy rows; their
        // faults hardly overlap, as measured.
        work.read_seconds =
            pages / job.disk.ReadsPerSecond(1, 1,
                                            static_cast<uint64_t>(kPageBytes)) +
            load.batches * job.work.rows *
                job.disk.CopySeconds(
                    static_cast<uint64_t>(job.basis.row_bytes())) /
                threads;
        work.processor_seconds =
            pages * (kFaultSeconds + job.disk.seconds_per_read);
        if (job.checks_rows) {
          work.processor_seconds += load.batches * job.work.rows *
                                    job.row_bytes() *
                                    job.disk.checksum_seconds_per_byte;
        }
        return work;
      },
      price);
  price.read_ops = misses.later;
  price.bytes_read = price.read_ops * kPageBytes;
  return price;
}

}  // namespace hearth::strategy
