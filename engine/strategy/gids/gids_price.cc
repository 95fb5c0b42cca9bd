#include "engine/strategy/gids/gids_price.h"

#include <algorithm>

#include "engine/store/manifest.h"
#include "engine/strategy/gids/estimates.h"
#include "engine/strategy/gids/hot_nodes.h"

namespace hearth::strategy {

namespace {

// Processor seconds of ranking by an edge, and of locating a row.
constexpr double kRankSeconds = 6e-9;
constexpr double kLocateSeconds = 2e-7;
// A ranking before any batch is sampled keeps so many of the rows that the most
// popular ones would.
constexpr double kShareOfBest = 0.9;
constexpr int kBestDepth = 1024;

}  // namespace

absl::StatusOr<Price> PriceGids(const GidsOptions& options,
                                const PricedJob& job) {
  const io::RowLayout layout = {
      .first_offset = 0,
      .row_bytes = static_cast<uint32_t>(job.basis.row_bytes()),
      .num_rows = job.basis.num_nodes()};
  const auto buffered = static_cast<double>(BufferedRows(options, layout));
  const auto lines = static_cast<double>(
      WindowLines(options, layout, job.basis.batches, job.basis.shards));
  const MissCurves::Misses misses =
      job.work.misses->Static(buffered * kShareOfBest, lines);
  const int depth = options.io_depth > 0 ? options.io_depth : kBestDepth;
  Price price;
  double edges = 0;
  for (const store::EdgeTypeEntry& type : job.basis.manifest.edge_types) {
    edges += static_cast<double>(type.num_edges);
  }
  price.prepare_seconds =
      ReversePageRankOptions().iterations * edges * kRankSeconds +
      buffered * job.row_bytes() / job.disk.BytesPerSecond(1);
  PricePasses(
      job, misses,
      [&](double missed, const PassLoad& load) {
        const RowReads reads = ReadRows(job, missed, 1, depth);
        return StrategyWork{
            .read_seconds = reads.seconds,
            .processor_seconds = reads.processor_seconds +
                                 load.batches * job.work.rows * kLocateSeconds,
            .assemblers = 1};
      },
      price);
  price.read_ops = misses.later;
  price.bytes_read = ReadRows(job, misses.later, 1, depth).bytes;
  return price;
}

}  // namespace hearth::strategy
