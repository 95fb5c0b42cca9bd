#include "engine/strategy/ginex/ginex.h"

#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/ginex/ginex_data.h"
#include "engine/strategy/ginex/ginex_pass.h"
#include "engine/strategy/ginex/neighbor_cache_file.h"
#include "engine/strategy/ginex/runtime_files.h"

namespace hearth::strategy {
namespace {

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
        neighbors_(
            files_, data_.topology, io::JoinPath(folder_, "neighbor_cache"),
            options.neighbor_cache_bytes == 0 ? options.cpu_cache_bytes
                                              : options.neighbor_cache_bytes) {}

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

absl::Status Validate(const GinexOptions& options,
                      const PipelineOptions& pipeline) {
  if (pipeline.samplers < 1 || pipeline.extractors < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(pipeline.samplers, " samplers and ", pipeline.extractors,
                     " extractors; at least one of each is needed"));
  }
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
  HEARTH_ASSIGN_OR_RETURN(GinexData data, GinexData::Open(dataset));
  return std::make_unique<GinexStrategy>(options, pipeline, resources,
                                         std::move(data));
}

}  // namespace hearth::strategy
