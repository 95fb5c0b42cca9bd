#include "engine/job/job_data.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/job/labeled_split.h"
#include "engine/store/manifest.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

absl::StatusOr<JobData> OpenJobData(const JobEnvironment& environment,
                                    const JobPasses::Options& options,
                                    Observer& observer) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(environment.files, options.data.dataset_path,
                           environment.verified));
  HEARTH_RETURN_IF_ERROR(CheckTrainable(*dataset));
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset->LoadLabels());
  std::vector<std::string> warnings;
  HEARTH_ASSIGN_OR_RETURN(JobPasses passes,
                          JobPasses::Make(options, *dataset, labels, warnings));
  for (const std::string& warning : warnings) {
    observer.OnLog(Severity::kWarning, warning);
  }
  return JobData{.dataset = std::move(dataset),
                 .labels = std::move(labels),
                 .passes = std::move(passes)};
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewModel(
    const JobEnvironment& environment, const TrainJobOptions& options,
    const store::Dataset& dataset, const JobPasses& passes) {
  const store::NodeTypeEntry& nodes = dataset.manifest().node_types[0];
  return environment.new_train_step(
      options.train,
      {.feature_dim = nodes.features.shape[1],
       .label_kind = nodes.label_kind,
       .label_width = nodes.label_width,
       .num_layers = static_cast<int64_t>(options.data.fanouts.size()),
       .trainers = options.data.trainers,
       .epoch_steps =
           strategy::NumBatches(passes.num_train(), options.data.batch_size),
       .epochs = options.data.epochs});
}

}  // namespace hearth::job
