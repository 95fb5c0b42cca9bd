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
#include "engine/base/status_macros.h"
#include "engine/cache/direct_cache.h"
#include "engine/cache/row_set.h"
#include "engine/cache/window_cache.h"
#include "engine/io/block_device.h"
#include "engine/io/coalesce.h"
#include "engine/io/queued_reader.h"
#include "engine/io/read_probe.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/feature_stripes.h"
#include "engine/store/row_format.h"
#include "engine/strategy/epoch_seconds.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/gids/gids_pass.h"
#include "engine/strategy/gids/hot_nodes.h"
#include "engine/strategy/gids/locator.h"
#include "engine/strategy/gids/sizes.h"
#include "engine/strategy/gids/stripes.h"
#include "engine/strategy/machine_probe.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::strategy {
namespace {

// Locates the rows of all batches of a pass, as GidsPass does, and plans their
// reads, which nobody makes.
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

// Measures the disks that rows are read from. Data disks without stripes, which
// have nothing to read yet, are taken to be like the disk of the features.
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

// Adds the plans of the stripes, which are written while the features are read
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
  HEARTH_ASSIGN_OR_RETURN(const double bytes_per_second,
                          ProbeReading({.files = context.files,
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
                         ProbeRowCopy(context.clock, format)) /
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
