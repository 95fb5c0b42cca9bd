#include "engine/strategy/superbatch/superbatch_strategy.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/cache/direct_cache.h"
#include "engine/cache/row_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/machine/machine_probe.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/superbatch/changeset.h"
#include "engine/strategy/superbatch/executor.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_options.h"
#include "engine/strategy/superbatch/superbatch_pass.h"

namespace hearth::strategy {

namespace {

class SuperbatchStrategy final : public Strategy {
 public:
  SuperbatchStrategy(SuperbatchRecipe recipe, const PipelineOptions& pipeline,
                     const StrategyResources& resources, SuperbatchData data)
      : name_(recipe.name),
        options_(recipe.options),
        pipeline_(pipeline),
        read_queues_(resources.read_queues),
        clock_(resources.clock),
        files_(resources.files),
        folder_(resources.scratch_folder),
        data_(std::move(data)),
        lists_(std::move(recipe.lists)),
        neighbors_(files_, data_.topology, folder_,
                   options_.neighbor_rank == NeighborRank::kCross
                       ? resources.partition
                       : nullptr) {}

  absl::StatusOr<PreparationReport> Prepare(const PassSequence& sequence,
                                            const PreparationListener& listener,
                                            std::stop_token /*stop*/) override {
    ShareNeighborBudget(sequence.passes, listener);
    return PreparationReport();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    ShareNeighborBudget({pass}, {});
    HEARTH_RETURN_IF_ERROR(
        Annotate(files_.CreateDirectory(folder_),
                 absl::StrCat("scratch files of strategy ", name_)));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<RuntimeFiles> runtime_files,
        RuntimeFiles::Create(files_, io::JoinPath(folder_, "pass"), pass));
    const SuperbatchContext context = {
        .data = data_,
        .neighbors = neighbors_,
        .neighbor_cache_bytes = *neighbor_cache_bytes_,
        .lists = lists_.get(),
        .read_queues = read_queues_,
        .clock = clock_,
        .inputs = inputs_,
        .admitted = admitted_,
        .options = options_,
        .pipeline = pipeline_};
    SuperbatchPass run(context, pass, *runtime_files, report);
    return run.Run(consumer, std::move(stop));
  }

  void Rest() override {
    inputs_.Clear();
    admitted_.Clear();
  }

 private:
  // Decides, in the first call, the neighbor cache's part of the neighbor
  // budget: its file is made once.
  void ShareNeighborBudget(absl::Span<const Pass> passes,
                           const PreparationListener& listener) {
    if (neighbor_cache_bytes_.has_value()) return;
    const uint64_t budget_bytes = options_.NeighborBytes();
    neighbor_cache_bytes_ =
        budget_bytes - (lists_ == nullptr
                            ? 0
                            : lists_->Reserve(passes, budget_bytes, listener));
  }

  const std::string name_;
  const SuperbatchOptions options_;
  const PipelineOptions pipeline_;
  io::ReadQueues& read_queues_;
  const Clock& clock_;
  io::FileSystem& files_;
  const std::string folder_;
  const SuperbatchData data_;
  const std::unique_ptr<ListSource> lists_;
  // Bytes of the neighbor cache; absent until the first ShareNeighborBudget.
  std::optional<uint64_t> neighbor_cache_bytes_;
  NeighborCacheFile neighbors_;
  BufferPool inputs_;
  BufferPool admitted_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewSuperbatchStrategy(
    SuperbatchRecipe recipe, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  HEARTH_RETURN_IF_ERROR(recipe.options.Validate());
  if (recipe.options.neighbor_rank == NeighborRank::kCross &&
      resources.partition == nullptr) {
    return absl::InvalidArgumentError(
        "neighbor_rank: cross needs the parts of order partition");
  }
  HEARTH_ASSIGN_OR_RETURN(
      SuperbatchData data,
      SuperbatchData::Open(dataset, resources.row_check, resources.stop));
  return std::make_unique<SuperbatchStrategy>(std::move(recipe), pipeline,
                                              resources, std::move(data));
}

namespace {

int64_t CachedRows(const SuperbatchOptions& options, const MemoryBasis& basis) {
  return cache::DirectCache::Capacity(options.cpu_cache_bytes,
                                      basis.num_nodes(), basis.row_bytes());
}

// Shards that a thread reads at once: one if the cache holds all rows, since a
// second shard joins only while reads of the first are in flight.
int ReadAtOnce(const SuperbatchOptions& options, const MemoryBasis& basis) {
  return CachedRows(options, basis) < basis.num_nodes() ? Executor::kReadAtOnce
                                                        : 1;
}

// Memory that planning the changesets of a superbatch takes.
uint64_t PlanningBytes(const SuperbatchOptions& options,
                       const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const int64_t rows = largest.num_inputs();
  const int64_t shards = basis.shards;
  // No batch but the last has fewer rows than a full batch has seeds; a shard
  // may have one seed less than the largest. With a history, batches may have
  // no rows at all.
  const int64_t profiled =
      basis.has_history ? basis.num_batches * shards
      : largest.nodes.empty()
          ? 0
          : static_cast<int64_t>(PlanBytesFor(options.cpu_cache_bytes) /
                                 kPlanBytesPerRow) /
                    std::max<int64_t>(
                        largest.nodes.back() - (shards > 1 ? 1 : 0), 1) +
                kProfiledBatches * shards;
  const int64_t batches =
      std::min(options.superbatch == 0 ? profiled : options.superbatch * shards,
               basis.num_batches * shards);
  int64_t accesses = batches * rows;
  if (options.superbatch == 0) {
    accesses = std::min(
        accesses, static_cast<int64_t>(PlanBytesFor(options.cpu_cache_bytes) /
                                       kPlanBytesPerRow) +
                      kProfiledBatches * shards * rows);
  }
  return ChangesetMemoryBytes(
      {.num_nodes = basis.num_nodes(), .capacity = CachedRows(options, basis)},
      accesses, rows, batches);
}

// Memory of reading neighbors: the largest hop of a batch is drawn and read at
// once.
uint64_t SamplingReadBytes(const SuperbatchOptions& options,
                           const MemoryBasis& basis) {
  const std::vector<int64_t> edges = basis.batches.WithMargin().edges;
  const int64_t most =
      edges.empty() ? 0 : *std::max_element(edges.begin(), edges.end());
  constexpr uint64_t kBytesPerEdge = 3 * sizeof(int64_t) + io::kPlanBytesPerRow;
  // With a history, two stages sample each batch.
  return static_cast<uint64_t>(basis.pipeline.samplers) *
         (basis.has_history ? 2 : 1) *
         (io::QueuedReader::StagingBytes(options.io_depth, sizeof(int64_t)) +
          static_cast<uint64_t>(most) * kBytesPerEdge);
}

// Memory of reading rows: first of filling the cache, then of batches.
uint64_t RowReadBytes(const SuperbatchOptions& options,
                      const MemoryBasis& basis) {
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const uint64_t filling =
      io::QueuedReader::StagingBytes(
          std::min(options.io_depth, Executor::kFillDepth), row_bytes,
          Executor::kFillReadBytes) +
      Executor::kFilledAtOnce * io::kPlanBytesPerRow +
      2 * sizeof(int64_t) * static_cast<uint64_t>(CachedRows(options, basis));
  const uint64_t reading =
      static_cast<uint64_t>(basis.pipeline.extractors) *
          (io::QueuedStream::StagingBytes(options.io_depth, row_bytes) +
           static_cast<uint64_t>(ReadAtOnce(options, basis)) * rows *
               io::kPlanBytesPerRow) +
      rows * sizeof(int32_t);
  return std::max(filling, reading);
}

}  // namespace

MemoryEstimate EstimateSuperbatchMemory(const SuperbatchOptions& options,
                                        const MemoryBasis& basis) {
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const int loaded =
      basis.pipeline.extractors + Executor::kLoadedWaiting * basis.shards;
  const int located = Executor::LocatedAtOnce(basis.shards);
  const int read_and_waiting = Executor::ReadAndWaiting(
      basis.pipeline.extractors, ReadAtOnce(options, basis), basis.shards);
  const int assembled =
      Executor::AssembledAtOnce(read_and_waiting, basis.shards);
  MemoryEstimate estimate;
  estimate.Add("topology", basis.indptr_bytes(),
               /*kept=*/true);
  // Feature cache and neighbor cache are never in memory at once: the larger
  // one counts. With macro batches a list may be held twice, in the static and
  // in the dynamic cache.
  const uint64_t lists =
      (options.neighbor_rank == NeighborRank::kCross ? 2 : 1) *
      basis.all_lists_bytes();
  estimate.Add("cache", std::max(std::min(options.cpu_cache_bytes,
                                          basis.all_rows_bytes()),
                                 std::min(options.NeighborBytes(), lists)));
  const uint64_t kept = estimate.TotalBytes() + basis.label_bytes();
  estimate.Add("reads", std::max(SamplingReadBytes(options, basis),
                                 RowReadBytes(options, basis)));
  // Loaders and samplers also hold the bytes of their sample files.
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = std::max(
                  2 * basis.pipeline.samplers,
                  basis.pipeline.extractors + loaded + located + assembled),
              .assembled = assembled},
             estimate);
  // Changesets of loaded batches, what was located, and rows that were read for
  // the cache: no more of them than it holds, or than are outside it once it is
  // full.
  const int64_t capacity = CachedRows(options, basis);
  const uint64_t entering = std::min(
      rows,
      static_cast<uint64_t>(std::min(capacity, basis.num_nodes() - capacity)));
  const uint64_t carried =
      rows *
      (static_cast<uint64_t>(loaded) * Executor::kLoadedBytesPerRow +
       static_cast<uint64_t>(located + assembled) * Executor::kReadBytesPerRow);
  estimate.Add(
      "buffers",
      carried +
          static_cast<uint64_t>(Executor::EnteringAtOnce(read_and_waiting)) *
              cache::AlignedBuffer::MemoryBytes(entering * row_bytes));
  // A superbatch is planned while none is executed, so that no batch carries
  // anything; neighbor lists are chosen before anything is sampled or read.
  const uint64_t choosing = sample::NeighborCache::kBuildBytesPerNode *
                            static_cast<uint64_t>(basis.num_nodes());
  const uint64_t running = estimate.TotalBytes() - kept;
  const uint64_t planning = PlanningBytes(options, basis);
  estimate.Add("planning",
               std::max(choosing > running ? choosing - running : 0,
                        planning > carried ? planning - carried : 0));
  return estimate;
}

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
    const machine::ProbeContext probe = {.files = context_.files,
                                         .read_queues = context_.read_queues,
                                         .clock = context_.clock,
                                         .stop = context_.stop};
    const std::string& path = data_.features.LargestFile().path();
    HEARTH_ASSIGN_OR_RETURN(
        const double pages_per_second,
        machine::ProbePages(probe, path, recipe_.options.io_depth));
    HEARTH_ASSIGN_OR_RETURN(const double bytes_per_second,
                            machine::ProbeReading(probe, path, {}));
    const auto rows = static_cast<double>(report_.rows_needed);
    SuperbatchSeconds seconds;
    EpochSeconds& execute = seconds.execute;
    // Making the neighbor cache is not counted: only the first epoch of a job
    // does it.
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
         rows * machine::ProbeRowCopy(context_.clock, data_.row_format())) /
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
  // Reads of rows; reads of neighbor lists were made while sampling.
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
  // The disk is measured after the pass was foretold, when that memory is
  // released.
  uint64_t foretelling = 0;
  for (const MemoryShare& share : estimate.shares) {
    if (!share.kept) foretelling += share.bytes;
  }
  estimate.Add("measuring", machine::kProbeBytes > foretelling
                                ? machine::kProbeBytes - foretelling
                                : 0);
  return estimate;
}

}  // namespace hearth::strategy
