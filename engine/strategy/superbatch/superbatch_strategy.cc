#include "engine/strategy/superbatch/superbatch_strategy.h"

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/superbatch/neighbor_cache_file.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_data.h"
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

  absl::StatusOr<PreparationReport> Prepare(absl::Span<const Pass> passes,
                                            const PreparationListener& listener,
                                            std::stop_token /*stop*/) override {
    ShareNeighborBudget(passes, listener);
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
  // Decides, the first time, what of the neighbor budget the neighbor cache
  // gets: its file is made once.
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
  // The part of the neighbor budget that it got, once that is shared out.
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

}  // namespace hearth::strategy
