#include "engine/strategy/superbatch/forecast.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/base/process.h"
#include "engine/base/status_macros.h"
#include "engine/io/file_system.h"
#include "engine/io/row_reader.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/epoch_seconds.h"
#include "engine/strategy/machine_probe.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_report.h"
#include "engine/strategy/spread_sampling.h"
#include "engine/strategy/superbatch/memory_bound.h"
#include "engine/strategy/superbatch/neighbor_cache_file.h"
#include "engine/strategy/superbatch/row_read_counter.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_data.h"
#include "engine/strategy/superbatch/superbatch_pass.h"

namespace hearth::strategy {
namespace {

// Seconds of an epoch of training.
struct SuperbatchSeconds {
  // Sampling and planning ahead, and the changes between the two caches.
  double inspect = 0;
  // The main loop.
  EpochSeconds execute;
};

double SecondsOf(const PassReport& report, absl::string_view phase) {
  for (const PhaseSeconds& one : report.phases) {
    if (one.name == phase) return one.seconds;
  }
  return 0;
}

class SuperbatchForecaster {
 public:
  SuperbatchForecaster(SuperbatchRecipe recipe, const ForecastContext& context,
                       const ForecastRequest& request, SuperbatchData data)
      : recipe_(std::move(recipe)),
        context_(context),
        request_(request),
        data_(std::move(data)),
        pass_(request.passes.front()) {}

  absl::StatusOr<Forecast> Run() {
    HEARTH_ASSIGN_OR_RETURN(const double step_seconds,
                            request_.time_training());
    HEARTH_RETURN_IF_ERROR(Foretell());
    Forecast forecast;
    forecast.rows_needed = static_cast<uint64_t>(report_.rows_needed);
    const auto row_bytes =
        static_cast<uint64_t>(data_.row_format().row_bytes());
    for (const LevelHits& hits : report_.hits) {
      const auto rows = static_cast<uint64_t>(hits.rows);
      forecast.levels.push_back(
          {.level = hits.level, .rows = rows, .bytes = rows * row_bytes});
    }
    forecast.bytes_read = static_cast<uint64_t>(*report_.bytes_read);
    forecast.read_ops = static_cast<uint64_t>(*report_.read_ops);
    forecast.sampled_batches = static_cast<uint64_t>(report_.batches);
    forecast.total_batches =
        static_cast<uint64_t>(TotalBatches(request_.passes));
    HEARTH_ASSIGN_OR_RETURN(const SuperbatchSeconds seconds,
                            TimeOf(step_seconds));
    forecast.epoch_seconds = seconds.inspect + seconds.execute.all();
    AddNotes(seconds, forecast);
    return forecast;
  }

 private:
  // Samples and plans the pass.
  absl::Status Foretell() {
    const uint64_t budget_bytes = recipe_.options.NeighborBytes();
    const uint64_t list_bytes =
        recipe_.lists == nullptr
            ? 0
            : recipe_.lists->Reserve(request_.passes, budget_bytes,
                                     context_.listener);
    NeighborCacheFile neighbors(
        context_.files, data_.topology, context_.scratch_folder,
        recipe_.options.neighbor_rank == NeighborRank::kCross
            ? context_.partition
            : nullptr);
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<RuntimeFiles> files,
        RuntimeFiles::Create(context_.files,
                             io::JoinPath(context_.scratch_folder, "pass"),
                             pass_));
    BufferPool unused;
    SuperbatchPass pass({.data = data_,
                         .neighbors = neighbors,
                         .neighbor_cache_bytes = budget_bytes - list_bytes,
                         .lists = recipe_.lists.get(),
                         .read_queues = context_.read_queues,
                         .clock = context_.clock,
                         .inputs = unused,
                         .admitted = unused,
                         .options = recipe_.options,
                         .pipeline = context_.pipeline},
                        pass_, *files, report_);
    HEARTH_ASSIGN_OR_RETURN(row_reads_, pass.Foretell(context_.stop));
    return absl::OkStatus();
  }

  absl::StatusOr<SuperbatchSeconds> TimeOf(double step_seconds) const {
    const ProbeContext probe = {.files = context_.files,
                                .read_queues = context_.read_queues,
                                .clock = context_.clock,
                                .stop = context_.stop};
    const std::string& path = data_.features.LargestFile().path();
    HEARTH_ASSIGN_OR_RETURN(const double pages_per_second,
                            ProbePages(probe, path, recipe_.options.io_depth));
    HEARTH_ASSIGN_OR_RETURN(const double bytes_per_second,
                            ProbeReading(probe, path, {}));
    const auto rows = static_cast<double>(report_.rows_needed);
    SuperbatchSeconds seconds;
    EpochSeconds& execute = seconds.execute;
    // The first epoch of a job makes the neighbor cache besides.
    seconds.inspect =
        SecondsOf(report_, "inspect") + SecondsOf(report_, "switch");
    const auto reading = [&](const io::ReadTally& reads) {
      return std::max(static_cast<double>(reads.requests) / pages_per_second,
                      static_cast<double>(reads.bytes_read) / bytes_per_second);
    };
    seconds.inspect += reading(row_reads_.filling);
    execute.read = reading(row_reads_.executing);
    execute.train = step_seconds * static_cast<double>(report_.batches);
    const auto processors = static_cast<double>(UsableProcessors());
    execute.compute =
        (execute.train * request_.train_threads +
         rows * ProbeRowCopy(context_.clock, data_.row_format())) /
        processors;
    return seconds;
  }

  void AddNotes(const SuperbatchSeconds& seconds, Forecast& forecast) const {
    const EpochSeconds& execute = seconds.execute;
    int64_t lists = report_.lists_read.value_or(0);
    for (const ListHits& hits : report_.list_hits) lists += hits.lists;
    forecast.notes.push_back(absl::StrFormat(
        "Rows and reads are for the first epoch, which was sampled and planned "
        "whole. Of %d neighbor lists drawn from, %d are read from disk.",
        lists, report_.lists_read.value_or(0)));
    forecast.notes.push_back(absl::StrFormat(
        "Sampling and planning an epoch takes %.1f s, its execution %.1f s, "
        "bound by %s: rows %.1f s, training %.1f s.",
        seconds.inspect, execute.all(), execute.bound(), execute.read,
        execute.train));
  }

  SuperbatchRecipe recipe_;
  const ForecastContext& context_;
  const ForecastRequest& request_;
  const SuperbatchData data_;
  const Pass& pass_;
  PassReport report_;
  // Those of rows: neighbor lists have been read.
  RowReads row_reads_;
};

}  // namespace

absl::StatusOr<Forecast> ForecastSuperbatch(SuperbatchRecipe recipe,
                                            const ForecastContext& context,
                                            const ForecastRequest& request) {
  HEARTH_RETURN_IF_ERROR(recipe.options.Validate());
  HEARTH_ASSIGN_OR_RETURN(
      SuperbatchData data,
      SuperbatchData::Open(context.dataset, nullptr, context.stop));
  return SuperbatchForecaster(std::move(recipe), context, request,
                              std::move(data))
      .Run();
}

MemoryEstimate EstimateSuperbatchForecastMemory(
    const SuperbatchOptions& options, const MemoryBasis& basis) {
  MemoryEstimate estimate = EstimateSuperbatchMemory(options, basis);
  // The disk is measured once the pass has been foretold: what that took is
  // gone.
  uint64_t foretelling = 0;
  for (const MemoryShare& share : estimate.shares) {
    if (!share.kept) foretelling += share.bytes;
  }
  estimate.Add("measuring",
               kProbeBytes > foretelling ? kProbeBytes - foretelling : 0);
  return estimate;
}

}  // namespace hearth::strategy
