#include "engine/strategy/superbatch/superbatch_strategy.h"

#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
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
  SuperbatchStrategy(absl::string_view name, const SuperbatchOptions& options,
                     const PipelineOptions& pipeline,
                     const StrategyResources& resources, SuperbatchData data)
      : name_(name),
        options_(options),
        pipeline_(pipeline),
        read_queues_(resources.read_queues),
        clock_(resources.clock),
        files_(resources.files),
        folder_(resources.scratch_folder),
        data_(std::move(data)),
        neighbors_(files_, data_.topology, folder_,
                   options.neighbor_rank == NeighborRank::kCross
                       ? resources.partition
                       : nullptr) {}

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    HEARTH_RETURN_IF_ERROR(
        Annotate(files_.CreateDirectory(folder_),
                 absl::StrCat("scratch files of strategy ", name_)));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<RuntimeFiles> runtime_files,
        RuntimeFiles::Create(files_, io::JoinPath(folder_, "pass"), pass));
    const SuperbatchContext context = {.data = data_,
                                       .neighbors = neighbors_,
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
  const std::string name_;
  const SuperbatchOptions options_;
  const PipelineOptions pipeline_;
  io::ReadQueues& read_queues_;
  const Clock& clock_;
  io::FileSystem& files_;
  const std::string folder_;
  const SuperbatchData data_;
  NeighborCacheFile neighbors_;
  BufferPool inputs_;
  BufferPool admitted_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewSuperbatchStrategy(
    absl::string_view name, const SuperbatchOptions& options,
    const PipelineOptions& pipeline, const store::Dataset& dataset,
    const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  HEARTH_RETURN_IF_ERROR(options.Validate());
  if (options.neighbor_rank == NeighborRank::kCross &&
      resources.partition == nullptr) {
    return absl::InvalidArgumentError(
        "neighbor_rank: cross needs the parts of order partition");
  }
  HEARTH_ASSIGN_OR_RETURN(SuperbatchData data,
                          SuperbatchData::Open(dataset, resources.row_check));
  return std::make_unique<SuperbatchStrategy>(name, options, pipeline,
                                              resources, std::move(data));
}

}  // namespace hearth::strategy
