#include "engine/strategy/ginex/ginex.h"

#include <algorithm>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/coalesce.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/ginex/changeset.h"
#include "engine/strategy/ginex/executor.h"
#include "engine/strategy/ginex/ginex_data.h"
#include "engine/strategy/ginex/ginex_pass.h"
#include "engine/strategy/ginex/neighbor_cache_file.h"
#include "engine/strategy/ginex/queued_reader.h"
#include "engine/strategy/ginex/runtime_files.h"
#include "engine/strategy/ginex/superbatch_size.h"

namespace hearth::strategy {
namespace {

uint64_t NeighborCacheBytes(const GinexOptions& options) {
  return options.neighbor_cache_bytes == 0 ? options.cpu_cache_bytes
                                           : options.neighbor_cache_bytes;
}

class GinexStrategy final : public Strategy {
 public:
  GinexStrategy(const GinexOptions& options, const PipelineOptions& pipeline,
                const StrategyResources& resources, GinexData data)
      : options_(options),
        pipeline_(pipeline),
        read_queues_(resources.read_queues),
        clock_(resources.clock),
        files_(resources.files),
        folder_(resources.scratch_folder),
        data_(std::move(data)),
        neighbors_(files_, data_.topology,
                   io::JoinPath(folder_, "neighbor_cache"),
                   NeighborCacheBytes(options)) {}

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    HEARTH_RETURN_IF_ERROR(Annotate(files_.CreateDirectory(folder_),
                                    "scratch files of strategy ginex"));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<RuntimeFiles> runtime_files,
        RuntimeFiles::Create(files_, io::JoinPath(folder_, "pass"), pass));
    const GinexContext context = {.data = data_,
                                  .neighbors = neighbors_,
                                  .read_queues = read_queues_,
                                  .clock = clock_,
                                  .inputs = inputs_,
                                  .admitted = admitted_,
                                  .options = options_,
                                  .pipeline = pipeline_};
    GinexPass run(context, pass, *runtime_files, report);
    return run.Run(consumer, std::move(stop));
  }

  void Rest() override {
    inputs_.Clear();
    admitted_.Clear();
  }

 private:
  const GinexOptions options_;
  const PipelineOptions pipeline_;
  io::ReadQueues& read_queues_;
  const Clock& clock_;
  io::FileSystem& files_;
  const std::string folder_;
  const GinexData data_;
  NeighborCacheFile neighbors_;
  BufferPool inputs_;
  BufferPool admitted_;
};

// Memory that planning the changesets of a superbatch takes.
uint64_t PlanningBytes(const GinexOptions& options, const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const int64_t rows = largest.num_inputs();
  const int64_t shards = basis.shards;
  // No batch but the last has fewer rows than a full batch has seeds; a shard
  // may have one seed less than the largest.
  const int64_t profiled =
      largest.nodes.empty()
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
  return ChangesetMemoryBytes({.num_nodes = basis.nodes().num_nodes,
                               .capacity = cache::DirectCache::Capacity(
                                   options.cpu_cache_bytes,
                                   basis.nodes().num_nodes, basis.row_bytes())},
                              accesses, rows, batches);
}

// Reading neighbors: the largest hop of a batch, drawn and read at once.
uint64_t SamplingReadBytes(const GinexOptions& options,
                           const MemoryBasis& basis) {
  const std::vector<int64_t> edges = basis.batches.WithMargin().edges;
  const int64_t most =
      edges.empty() ? 0 : *std::max_element(edges.begin(), edges.end());
  constexpr uint64_t kBytesPerEdge = 3 * sizeof(int64_t) + io::kPlanBytesPerRow;
  return static_cast<uint64_t>(basis.pipeline.samplers) *
         (QueuedReader::StagingBytes(options.io_depth, sizeof(int64_t)) +
          static_cast<uint64_t>(most) * kBytesPerEdge);
}

// Reading rows: those of a batch, or those that the cache is filled with.
uint64_t RowReadBytes(const GinexOptions& options, const MemoryBasis& basis) {
  const int64_t most = std::max(basis.batches.WithMargin().num_inputs(),
                                Executor::kFilledAtOnce);
  constexpr uint64_t kBytesPerRow = 3 * sizeof(int64_t) + io::kPlanBytesPerRow;
  const uint64_t initial =
      2 * sizeof(int64_t) * options.cpu_cache_bytes /
      static_cast<uint64_t>(std::max<int64_t>(basis.row_bytes(), 1));
  return QueuedReader::StagingBytes(options.io_depth,
                                    static_cast<uint64_t>(basis.row_bytes())) +
         static_cast<uint64_t>(most) * kBytesPerRow + initial;
}

absl::Status Validate(const GinexOptions& options,
                      const PipelineOptions& pipeline) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  if (options.superbatch < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "superbatch: ", options.superbatch, " batches; 0 or more are needed"));
  }
  const auto most = static_cast<int>(io::kMaxReadDepth);
  if (options.io_depth < 1 || options.io_depth > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "io_depth: ", options.io_depth, " is not within 1 .. ", most));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewGinexStrategy(
    const GinexOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(Validate(options, pipeline));
  HEARTH_ASSIGN_OR_RETURN(GinexData data,
                          GinexData::Open(dataset, resources.row_check));
  return std::make_unique<GinexStrategy>(options, pipeline, resources,
                                         std::move(data));
}

absl::StatusOr<MemoryEstimate> EstimateGinexMemory(const GinexOptions& options,
                                                   const MemoryBasis& basis) {
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const int loaded =
      basis.pipeline.extractors + Executor::kLoadedWaiting * basis.shards;
  const int assembled = Executor::AssembledAtOnce(basis.shards);
  MemoryEstimate estimate;
  estimate.Add("topology", basis.edges().indptr.file_size_bytes,
               /*kept=*/true);
  // Where two things are never there at once, the larger one counts.
  estimate.Add("cache",
               std::max(options.cpu_cache_bytes, NeighborCacheBytes(options)));
  estimate.Add("planning",
               std::max(sample::NeighborCache::kBuildBytesPerNode *
                            static_cast<uint64_t>(basis.nodes().num_nodes),
                        PlanningBytes(options, basis)));
  estimate.Add("reads", std::max(SamplingReadBytes(options, basis),
                                 RowReadBytes(options, basis)));
  // Loaders and samplers have their files' bytes besides.
  AddBatches(
      basis,
      {.samplers = basis.pipeline.samplers,
       .sampled = std::max(2 * basis.pipeline.samplers,
                           basis.pipeline.extractors + loaded + assembled),
       .assembled = assembled},
      estimate);
  // Changesets of loaded batches, and rows that were read for the cache.
  estimate.Add(
      "buffers",
      rows * (static_cast<uint64_t>(loaded) * Executor::kLoadedBytesPerRow +
              static_cast<uint64_t>(assembled) *
                  (Executor::kReadBytesPerRow + row_bytes + row_bytes / 8)));
  return estimate;
}

}  // namespace hearth::strategy
