#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/cache/window_cache.h"
#include "engine/io/coalesce.h"
#include "engine/io/queued_reader.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/row_format.h"
#include "engine/strategy/gids/constant_buffer.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/gids/gids_pass.h"
#include "engine/strategy/gids/hot_nodes.h"
#include "engine/strategy/gids/locator.h"
#include "engine/strategy/gids/sizes.h"
#include "engine/strategy/gids/stripes.h"
#include "engine/strategy/machine_probe.h"

namespace hearth::strategy {
namespace {

io::RowLayout LayoutOf(const MemoryBasis& basis) {
  return {.first_offset = 0,
          .row_bytes = static_cast<uint32_t>(basis.row_bytes()),
          .num_rows = basis.num_nodes()};
}

// Shards of batches from the one that enters the window to the one that is
// located.
int64_t InWindow(const GidsOptions& options, const MemoryBasis& basis) {
  return std::min(options.window, basis.num_batches) * basis.shards + 1;
}

// Where rows are: of the locator, of batches in the window, and of those that
// are located.
uint64_t PinBytes(int64_t rows, int64_t in_window, int64_t located) {
  return static_cast<uint64_t>(rows) *
         (Locator::kBytesPerRow +
          static_cast<uint64_t>(in_window) * LocatedRows::kEnteredBytesPerRow +
          static_cast<uint64_t>(located) * LocatedRows::kBytesPerRow);
}

// The device memory of NewDeviceAssembler beside the lines: widened rows of all
// batches that may stay there, whether models on the GPU take them or others;
// rows of one as they were read, and lists of where they go.
uint64_t DeviceBatchBytes(int64_t rows, const store::RowFormat& format,
                          int assembled) {
  constexpr int64_t kListBytesPerRow = 16;
  constexpr uint64_t kAlignments = 4096;
  const auto widened = format.dim * static_cast<int64_t>(sizeof(float));
  return static_cast<uint64_t>(rows * (assembled * widened +
                                       format.row_bytes() + kListBytesPerRow)) +
         kAlignments;
}

// Memory of choosing hot nodes while a strategy keeps what it has; batches are
// sampled only to count how often they need which.
uint64_t ChoosingBytes(const GidsOptions& options, const MemoryBasis& basis,
                       const MemoryEstimate& running) {
  uint64_t bytes = RankingBytes(basis.num_nodes()) + basis.indptr_bytes();
  for (const MemoryShare& share : running.shares) {
    if (share.place != MemoryPlace()) continue;
    const bool sampling = share.owner == "samplers" || share.owner == "batches";
    if (share.kept || (sampling && options.hot == HotNodes::kFrequency)) {
      bytes += share.bytes;
    }
  }
  // The processor samples those.
  if (basis.pipeline.sampling_gpu.has_value() &&
      options.hot == HotNodes::kFrequency) {
    bytes += static_cast<uint64_t>(basis.pipeline.samplers) *
             basis.batches.WithMargin().SamplerBytes();
  }
  return bytes;
}

}  // namespace

absl::StatusOr<MemoryEstimate> EstimateGidsMemory(const GidsOptions& options,
                                                  const MemoryBasis& basis) {
  const io::RowLayout layout = LayoutOf(basis);
  const auto row_bytes = static_cast<int64_t>(layout.row_bytes);
  const sample::BatchShape largest = basis.batches.WithMargin();
  const int64_t rows = largest.num_inputs();
  const int64_t lines =
      WindowLines(options, layout, basis.batches, basis.shards);
  const int64_t in_window = InWindow(options, basis);
  const int64_t window_rows = std::min(layout.num_rows, in_window * rows);
  MemoryEstimate estimate;
  estimate.Add("topology", basis.sampled_topology_bytes(), /*kept=*/true);
  const bool on_gpu = options.gpu_cache_bytes > 0;
  const uint64_t line_bytes =
      static_cast<uint64_t>(lines) * static_cast<uint64_t>(row_bytes);
  estimate.Add("cache",
               ConstantBuffer::MemoryBytes(BufferedRows(options, layout),
                                           row_bytes, layout.num_rows) +
                   (on_gpu ? 0 : line_bytes),
               /*kept=*/true);
  estimate.Add("window", cache::WindowCache::MemoryBytes(lines, window_rows),
               /*kept=*/true);
  // All batches from their reads to their assembly, or a larger one alone.
  estimate.Add("staging", std::max(StagingBytes(options, layout, basis.batches,
                                                basis.shards),
                                   LargestStagedBytes(layout, basis.batches)));
  estimate.Add("reads",
               io::QueuedStream::StagingBytes(
                   MostDepth(options, basis.data_disks), layout.row_bytes));
  if (options.striped) {
    estimate.Add("striping", Stripes::MemoryBytes(basis.data_disks));
  }
  // The inputs of one that is assembled, of those that wait, and of those that
  // are with the trainer.
  const auto assembled =
      1 + (GidsPass::kWaiting + 1) * static_cast<int>(basis.shards);
  const int waiting = (GidsPass::kSampledWaiting + 2 * GidsPass::kWaiting) *
                      static_cast<int>(basis.shards);
  const int sampled = basis.pipeline.samplers + waiting +
                      static_cast<int>(in_window) + assembled + 1;
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = sampled,
              .assembled = assembled},
             estimate);
  if (on_gpu) {
    estimate.Add("gpu cache", line_bytes, /*kept=*/true, kRowsOnGpu);
    estimate.Add("gpu batch",
                 DeviceBatchBytes(rows, basis.row_format(), assembled),
                 /*kept=*/true, kRowsOnGpu);
  }
  // Where rows are, of batches that are not in the staging memory.
  estimate.Add("pins", PinBytes(rows, in_window, waiting + assembled));
  const uint64_t choosing = ChoosingBytes(options, basis, estimate);
  const uint64_t running = estimate.TotalBytes();
  estimate.Add("ranking", choosing > running ? choosing - running : 0);
  return estimate;
}

std::vector<BudgetOf<GidsOptions>> GidsBudgets(const GidsOptions& options,
                                               const MemoryBasis& basis) {
  using Chosen = Configuration<GidsOptions>;
  const io::RowLayout layout = LayoutOf(basis);
  std::vector<BudgetOf<GidsOptions>> budgets;
  // The batches of the window are in memory.
  const auto window = static_cast<uint64_t>(options.window);
  budgets.push_back({.budget = {.option = "window",
                                .unit = BudgetUnit::kBatches,
                                .asked = window,
                                .least = std::min<uint64_t>(window, 1)},
                     .set = [](uint64_t batches, Chosen& chosen) {
                       chosen.strategy.window = static_cast<int64_t>(batches);
                     }});
  // Samplers alone: it has no extractors.
  budgets.push_back(ThreadBudgets<GidsOptions>(basis.pipeline).back());
  // Lines of a GPU take none of the host's memory.
  if (options.gpu_cache_bytes == 0) {
    const uint64_t lines = static_cast<uint64_t>(WindowLines(
                               options, layout, basis.batches, basis.shards)) *
                           layout.row_bytes;
    budgets.push_back(
        {.budget = CacheBudget(
             "window-cache", options.window_cache_bytes.value_or(lines), lines),
         .set = [](uint64_t bytes, Chosen& chosen) {
           chosen.strategy.window_cache_bytes = bytes;
         }});
  }
  const uint64_t buffered = ConstantBuffer::MemoryBytes(
      BufferedRows(options, layout), layout.row_bytes, layout.num_rows);
  budgets.push_back(
      {.budget = CacheBudget(
           "cpu-cache", options.cpu_cache_bytes.value_or(buffered), buffered),
       .set = [](uint64_t bytes, Chosen& chosen) {
         chosen.strategy.cpu_cache_bytes = bytes;
       }});
  const uint64_t staging =
      StagingBytes(options, layout, basis.batches, basis.shards);
  budgets.push_back(
      {.budget = {.option = "staging",
                  .asked = staging,
                  .least = std::min(staging,
                                    LargestStagedBytes(layout, basis.batches))},
       .set = [](uint64_t bytes, Chosen& chosen) {
         chosen.strategy.staging_bytes = bytes;
       }});
  return budgets;
}

MemoryEstimate EstimateGidsForecastMemory(const GidsOptions& options,
                                          const MemoryBasis& basis) {
  const io::RowLayout layout = LayoutOf(basis);
  const int64_t rows = basis.batches.WithMargin().num_inputs();
  const int64_t in_window = InWindow(options, basis);
  MemoryEstimate estimate;
  estimate.Add("topology", basis.indptr_bytes());
  estimate.Add("measuring", kProbeBytes);
  estimate.Add("ranking", RankingBytes(layout.num_rows));
  estimate.Add("window",
               cache::WindowCache::MemoryBytes(
                   WindowLines(options, layout, basis.batches, basis.shards),
                   std::min(layout.num_rows, in_window * rows)) +
                   cache::RowSet::MemoryBytes(layout.num_rows));
  estimate.Add("pins", PinBytes(rows, in_window, /*located=*/1) +
                           static_cast<uint64_t>(in_window * rows) *
                               sizeof(store::NodeId));
  estimate.Add("reads", static_cast<uint64_t>(rows) * io::kPlanBytesPerRow);
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.pipeline.samplers + 3 * basis.shards,
              .assembled = 0},
             estimate);
  return estimate;
}

}  // namespace hearth::strategy
