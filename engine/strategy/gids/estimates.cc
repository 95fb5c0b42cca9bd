#include "engine/strategy/gids/estimates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/cache/direct_cache.h"
#include "engine/cache/window_cache.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_probe.h"
#include "engine/io/row_reader.h"
#include "engine/machine/machine_probe.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/feature_rows.h"
#include "engine/store/feature_stripes.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/gids/batch_assembler.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/gids/gids_pass.h"
#include "engine/strategy/gids/hot_nodes.h"
#include "engine/strategy/gids/stripes.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

// The constant buffer has one in so many of all rows (GIDS, section 4.1).
constexpr uint64_t kDefaultShare = 10;
// The window cache has lines for the rows of so many batches.
constexpr int64_t kDefaultBatches = 4;

}  // namespace

int64_t BufferedRows(const GidsOptions& options, const io::RowLayout& layout) {
  if (!options.cpu_cache_bytes.has_value()) {
    return layout.num_rows / kDefaultShare;
  }
  return ConstantBuffer::Capacity(*options.cpu_cache_bytes, layout.row_bytes,
                                  layout.num_rows);
}

int64_t WindowLines(const GidsOptions& options, const io::RowLayout& layout,
                    const BatchBound& batches, int64_t shards) {
  const int64_t most = std::min<int64_t>(layout.num_rows, INT32_MAX);
  if (options.gpu_cache_bytes == 0 && !options.window_cache_bytes) {
    // Rows of the constant buffer take no lines.
    return std::min(
        {most, layout.num_rows - BufferedRows(options, layout),
         kDefaultBatches * shards * batches.WithMargin().num_inputs()});
  }
  const uint64_t bytes = options.gpu_cache_bytes > 0
                             ? options.gpu_cache_bytes
                             : *options.window_cache_bytes;
  return static_cast<int64_t>(std::min<uint64_t>(bytes / layout.row_bytes,
                                                 static_cast<uint64_t>(most)));
}

absl::StatusOr<MeasuredDisks> MeasureDisks(
    const GidsOptions& options, const io::RowLayout& layout,
    absl::Span<io::BlockDevice* const> files, io::ReadQueues& queues,
    const Clock& clock, const std::stop_token& stop) {
  MeasuredDisks disks = {.count = static_cast<int>(files.size())};
  const int depth_of_each =
      options.io_depth == 0 ? 0 : std::max(1, options.io_depth / disks.count);
  size_t depth = 1;
  for (io::BlockDevice* const file : files) {
    // With very few rows a disk may have none.
    if (file->size_bytes() == 0) continue;
    HEARTH_ASSIGN_OR_RETURN(
        const io::ReadProfile profile,
        io::ProbeReads(*file, queues, clock, layout.row_bytes,
                       static_cast<size_t>(depth_of_each), stop));
    const double peak = profile.peak_reads_per_second;
    if (disks.slowest.peak_reads_per_second == 0 ||
        peak < disks.slowest.peak_reads_per_second) {
      disks.slowest = profile;
    }
    depth = std::max(depth, profile.depth);
  }
  disks.depth = options.io_depth > 0
                    ? options.io_depth
                    : std::min(static_cast<int>(io::kMaxReadDepth),
                               disks.count * static_cast<int>(depth));
  return disks;
}

int MostDepth(const GidsOptions& options, int data_disks) {
  if (options.io_depth > 0) return options.io_depth;
  const int disks = options.striped ? std::max(1, data_disks) : 1;
  return static_cast<int>(
      std::min(io::kMaxReadDepth, io::kMostProbedDepth * disks));
}

int64_t TargetReads(const MeasuredDisks& disks) {
  return std::max(
      io::OverlappingReads(disks.slowest, /*share=*/0.95, disks.count),
      static_cast<int64_t>(disks.depth));
}

uint64_t LargestStagedBytes(const io::RowLayout& layout,
                            const BatchBound& batches) {
  const sample::BatchShape largest = batches.WithMargin();
  return StagedBytes(largest.num_inputs(), largest.num_inputs(),
                     layout.row_bytes) +
         largest.MemoryBytes();
}

uint64_t StagingBytes(const GidsOptions& options, const io::RowLayout& layout,
                      const BatchBound& batches, int64_t shards) {
  if (options.staging_bytes > 0) return options.staging_bytes;
  const bool all_rows_fit = BufferedRows(options, layout) +
                                WindowLines(options, layout, batches, shards) >=
                            layout.num_rows;
  return std::max(GidsOptions::kLeastStaging,
                  (all_rows_fit ? 1 : 2) * LargestStagedBytes(layout, batches));
}

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

// Memory that says where rows are: of the locator, of batches in the window,
// and of located batches.
uint64_t PinBytes(int64_t rows, int64_t in_window, int64_t located) {
  return static_cast<uint64_t>(rows) *
         (Locator::kBytesPerRow +
          static_cast<uint64_t>(in_window) * LocatedRows::kEnteredBytesPerRow +
          static_cast<uint64_t>(located) * LocatedRows::kBytesPerRow);
}

// The device memory of NewDeviceAssembler without the lines: widened rows of
// `assembled` shards (counted in host memory, too, since it depends on the pass
// where they are); missing rows of one shard as stored, and its lists.
uint64_t DeviceBatchBytes(int64_t rows, const store::RowFormat& format,
                          int assembled) {
  constexpr int64_t kListBytesPerRow = 16;
  constexpr uint64_t kAlignments = 4096;
  const auto widened = format.dim * static_cast<int64_t>(sizeof(float));
  return static_cast<uint64_t>(rows * (assembled * widened +
                                       format.row_bytes() + kListBytesPerRow)) +
         kAlignments;
}

// Memory of choosing hot nodes while the strategy holds its kept shares;
// batches are sampled only by HotNodes::kFrequency.
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
  // The CPU samples them.
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
  // All batches from their reads to their assembly, or a batch that is larger
  // than the limit alone.
  estimate.Add("staging", std::max(StagingBytes(options, layout, basis.batches,
                                                basis.shards),
                                   LargestStagedBytes(layout, basis.batches)));
  estimate.Add("reads",
               io::QueuedStream::StagingBytes(
                   MostDepth(options, basis.data_disks), layout.row_bytes));
  if (options.striped) {
    estimate.Add("striping", Stripes::MemoryBytes(basis.data_disks));
  }
  // Shards with input rows: one is assembled, those of one batch wait, those of
  // another are with the trainer.
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
  // Where rows are, for batches outside of the staging memory.
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
  // Cut first: the batches in the window are in memory.
  const auto window = static_cast<uint64_t>(options.window);
  budgets.push_back({.budget = {.option = "window",
                                .unit = BudgetUnit::kBatches,
                                .asked = window,
                                .least = std::min<uint64_t>(window, 1)},
                     .set = [](uint64_t batches, Chosen& chosen) {
                       chosen.strategy.window = static_cast<int64_t>(batches);
                     }});
  // Samplers alone: gids has no extractors.
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
  estimate.Add("measuring", machine::kProbeBytes);
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

namespace {

// Locates the rows of all batches of a pass, as GidsPass does, and plans their
// reads without making them.
class Foretelling {
 public:
  Foretelling(const cache::RowSet& buffered, int64_t num_lines, size_t ahead,
              const store::StoredFeatures& features)
      : table_(num_lines),
        locator_(buffered, table_),
        ahead_(ahead),
        features_(features),
        cost_({.max_request_bytes = io::QueuedStream::LongestRead(
                   *features.device, features.layout)}) {}

  absl::Status Add(const Pass& pass, int64_t number,
                   const sample::MiniBatch& batch) {
    window_.push_back({.number = number, .nodes = batch.input_nodes});
    locator_.Enter(window_.back().nodes, window_.back().rows);
    return window_.size() > ahead_ ? Locate(pass) : absl::OkStatus();
  }

  absl::Status Finish(const Pass& pass) {
    while (!window_.empty()) HEARTH_RETURN_IF_ERROR(Locate(pass));
    return absl::OkStatus();
  }

  int64_t rows_needed = 0;
  int64_t buffered_rows = 0;
  int64_t window_rows = 0;
  int64_t reads = 0;
  int64_t bytes_read = 0;

 private:
  struct Batch {
    int64_t number = 0;
    std::vector<store::NodeId> nodes;
    LocatedRows rows = {};
  };

  absl::Status Locate(const Pass& pass) {
    Batch& batch = window_.front();
    locator_.Locate(batch.nodes, EvictionStream(pass, batch.number),
                    batch.rows);
    HEARTH_RETURN_IF_ERROR(io::Coalesce(batch.rows.missing, features_.layout,
                                        features_.device->alignment(), cost_,
                                        plan_));
    rows_needed += std::ssize(batch.nodes);
    buffered_rows += std::ssize(batch.rows.buffer_slots);
    window_rows += std::ssize(batch.rows.lines);
    reads += std::ssize(plan_.reads);
    bytes_read += static_cast<int64_t>(plan_.read_bytes);
    window_.pop_front();
    return absl::OkStatus();
  }

  cache::WindowCache table_;
  Locator locator_;
  const size_t ahead_;
  const store::StoredFeatures& features_;
  const io::ReadCost cost_;
  std::deque<Batch> window_;
  io::ReadPlan plan_;
};

// Measures the disks that rows would be read from. Data disks without stripes
// have nothing to read yet: they are assumed to be like the disk of the
// features.
absl::StatusOr<MeasuredDisks> MeasureDisksOf(
    const GidsOptions& options, const ForecastContext& context,
    const store::StoredFeatures& features, const StripeState& stripes) {
  std::vector<io::BlockDevice*> files(
      std::max<size_t>(1, stripes.folders.size()), &features.LargestFile());
  store::StripedFeatures striped;
  if (stripes.exists) {
    HEARTH_ASSIGN_OR_RETURN(
        striped, store::FeatureStripes(context.dataset.manifest(),
                                       static_cast<int>(files.size()))
                     .Open(context.files, stripes.folders, features));
    files = striped.largest_of_disk;
  }
  return MeasureDisks(options, features.layout, files, context.read_queues,
                      context.clock, context.stop);
}

// Adds the stripes to `forecast`. They are written while the features are read
// once at `bytes_per_second`.
void AddStripes(const StripeState& stripes, double bytes_per_second,
                Forecast& forecast) {
  const bool ranked = !forecast.plan.empty();
  if (!ranked) forecast.plan = stripes.plan;
  forecast.plan_exists = stripes.exists && (forecast.plan_exists || !ranked);
  forecast.disk_bytes = forecast.disk_bytes.value_or(0) + stripes.disk_bytes;
  forecast.prepare_seconds =
      forecast.prepare_seconds.value_or(0) +
      static_cast<double>(stripes.missing_bytes) / bytes_per_second;
  forecast.notes.push_back(absl::StrCat(
      "Features are striped over ", stripes.folders.size(), " data disks, ",
      FormatByteSize(stripes.disk_bytes), " in all, ",
      stripes.exists
          ? "and exist already."
          : absl::StrCat("and ", FormatByteSize(stripes.missing_bytes),
                         " of them must still be written; each disk is assumed "
                         "to be as fast as the dataset's.")));
  if (!stripes.lacking.empty()) {
    forecast.notes.push_back(absl::StrCat(
        "The job would wait for disk space: ", stripes.lacking, "."));
  }
}

}  // namespace

absl::StatusOr<Forecast> ForecastGids(const GidsOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request) {
  HEARTH_ASSIGN_OR_RETURN(const double step_seconds, request.time_training());
  const Pass& pass = request.passes.front();
  HEARTH_ASSIGN_OR_RETURN(const store::StoredFeatures features,
                          context.dataset.OpenFeatures({}));
  HEARTH_ASSIGN_OR_RETURN(
      const HotNodesChoice hot,
      ChooseHotNodes({.dataset = context.dataset,
                      .labels = context.labels,
                      .files = context.files,
                      .clock = context.clock,
                      .plans = context.plans,
                      .keeps = false,
                      .samplers = context.pipeline.samplers,
                      .listener = context.listener,
                      .stop = context.stop},
                     options, BufferedRows(options, features.layout), pass));
  const cache::RowSet buffered(features.layout.num_rows, hot.nodes);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      context.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          context.stop));
  Foretelling foretelling(
      buffered,
      WindowLines(options, features.layout, pass.batches, pass.shards),
      static_cast<size_t>(options.window * pass.shards), features);
  const double start = context.clock.SteadySeconds();
  const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
  const ShardRange shards = ShardsOf(pass, std::ssize(seeds));
  const std::unique_ptr<pipeline::Pipeline> sampling = pipeline::NewPipeline(
      SampleStages(pass, seeds, {*topology, context.labels},
                   {.threads = context.pipeline.samplers}),
      "locate", context.clock);
  HEARTH_RETURN_IF_ERROR(sampling->Run(
      shards.count,
      [&](int64_t index) {
        return std::make_unique<SampledBatch>(shards.first + index);
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        const auto& batch = static_cast<const SampledBatch&>(*item);
        if (context.listener.progress) {
          context.listener.progress(
              "sampling",
              static_cast<uint64_t>(batch.number() - shards.first + 1),
              static_cast<uint64_t>(shards.count));
        }
        return foretelling.Add(pass, batch.number(), batch.sample());
      },
      context.stop));
  HEARTH_RETURN_IF_ERROR(foretelling.Finish(pass));
  const double sample_seconds = context.clock.SteadySeconds() - start;

  StripeState stripes;
  if (options.striped) {
    HEARTH_ASSIGN_OR_RETURN(
        stripes, FindStripes(context.dataset.manifest(), context.files,
                             context.data_disks));
  }
  HEARTH_ASSIGN_OR_RETURN(const MeasuredDisks disks,
                          MeasureDisksOf(options, context, features, stripes));
  HEARTH_ASSIGN_OR_RETURN(
      const double bytes_per_second,
      machine::ProbeReading({.files = context.files,
                             .read_queues = context.read_queues,
                             .clock = context.clock,
                             .stop = context.stop},
                            features.LargestFile().path(), {}));
  const int64_t batches = shards.count / pass.shards;
  EpochSeconds seconds;
  seconds.read = std::max(static_cast<double>(foretelling.reads) /
                              std::max(1.0, disks.peak_reads_per_second()),
                          static_cast<double>(foretelling.bytes_read) /
                              (bytes_per_second * disks.count));
  seconds.train = step_seconds * static_cast<double>(batches);
  const auto processors = static_cast<double>(UsableProcessors());
  const store::RowFormat format = {.dim = features.dim,
                                   .dtype = features.dtype};
  seconds.compute = (seconds.train * request.train_threads + sample_seconds +
                     static_cast<double>(foretelling.rows_needed) *
                         machine::ProbeRowCopy(context.clock, format)) /
                    processors;

  const auto row_bytes = static_cast<uint64_t>(features.layout.row_bytes);
  Forecast forecast;
  forecast.rows_needed = static_cast<uint64_t>(foretelling.rows_needed);
  for (const auto& [level, rows] :
       {std::pair{"constant_buffer", foretelling.buffered_rows},
        std::pair{"window_cache", foretelling.window_rows}}) {
    forecast.levels.push_back(
        {.level = level,
         .rows = static_cast<uint64_t>(rows),
         .bytes = static_cast<uint64_t>(rows) * row_bytes});
  }
  forecast.bytes_read = static_cast<uint64_t>(foretelling.bytes_read);
  forecast.read_ops = static_cast<uint64_t>(foretelling.reads);
  forecast.epoch_seconds = seconds.all();
  forecast.plan = hot.report.plan;
  forecast.plan_exists = hot.report.reused;
  if (!hot.report.plan.empty()) {
    forecast.disk_bytes = hot.report.disk_bytes;
    forecast.prepare_seconds = hot.report.reused ? 0 : hot.report.seconds;
  }
  if (options.striped) AddStripes(stripes, bytes_per_second, forecast);
  forecast.sampled_batches = static_cast<uint64_t>(batches);
  forecast.total_batches = static_cast<uint64_t>(TotalBatches(request.passes));
  forecast.notes.push_back(
      "Rows and reads are for the first epoch, which was sampled and located "
      "whole; later epochs begin with a warm window cache.");
  forecast.notes.push_back(absl::StrFormat(
      "The epoch is bound by %s: rows %.1f s, training %.1f s, processors "
      "%.1f s. %d reads are to overlap; a batch needs %d on the average.",
      seconds.bound(), seconds.read, seconds.train, seconds.compute,
      TargetReads(disks), batches == 0 ? 0 : foretelling.reads / batches));
  return forecast;
}

}  // namespace hearth::strategy
