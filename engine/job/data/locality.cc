#include "engine/job/data/locality.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "engine/job/data/opened_job.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/sample/label_distance.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/strategy/memory_budget.h"

namespace hearth::job {
namespace {

// Bytes of a seed while orders are compared, besides its label: the node, its
// part, both while parts are found, and two orders of nodes and places.
constexpr uint64_t kBytesOfSeed = 96;

// The nodes of `order`, as it was made of them.
std::vector<store::NodeId> NodesOf(const sample::SeedOrder& order) {
  const std::vector<store::NodeId> seeds = order.Epoch(0);
  const std::vector<int64_t> places = order.Places(0);
  std::vector<store::NodeId> nodes(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    nodes[static_cast<size_t>(places[i])] = seeds[i];
  }
  return nodes;
}

absl::Status CheckLabels(const JobEnvironment& environment,
                         const BatchOptions& data) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(environment.files, data.dataset_path,
                           environment.verified));
  if (!data.target.empty()) {
    HEARTH_RETURN_IF_ERROR(dataset->ChooseTarget(data.target));
  }
  const store::Manifest& manifest = dataset->manifest();
  if (manifest.node_types[dataset->target_type()].label_kind !=
      store::LabelKind::kTargets) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "order: must not be locality: the labels of dataset ", manifest.name,
      " are targets, and batches are compared by classes or labels"));
}

}  // namespace

absl::StatusOr<ChosenLocality> ChooseLocality(
    const JobEnvironment& environment, const BatchOptions& data,
    const strategy::PipelineOptions& pipeline, Observer& observer,
    std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(CheckLabels(environment, data));
  LocalityChoice choice;
  choice.macro_batch_parts = 1;
  const BatchOptions by_parts = InChosenOrder(data, choice);
  HEARTH_ASSIGN_OR_RETURN(
      const OpenedJob opened,
      OpenJob(environment,
              {.data = by_parts, .pipeline = pipeline, .training_only = true},
              observer, stop));
  const store::Manifest& manifest = opened.dataset->manifest();
  strategy::MemoryEstimate memory;
  memory.Add("seeds",
             kBytesOfSeed * static_cast<uint64_t>(opened.passes.num_train()));
  memory.Add("labels", manifest.node_types[opened.dataset->target_type()]
                           .labels.file_size_bytes);
  memory.Add("partition", opened.partition->partition->memory_bytes());
  MemoryLedger::Reservation reservation;
  HEARTH_RETURN_IF_ERROR(environment.memory.Reserve(memory, reservation));
  const std::vector<store::NodeId> nodes =
      NodesOf(*opened.passes.Training(0).order);
  const std::vector<uint16_t> parts =
      PartsOf(*opened.partition->partition, nodes);
  const store::Labels labels = opened.labels.Gather(nodes);
  HEARTH_ASSIGN_OR_RETURN(
      const sample::MacroBatchChoice chosen,
      sample::ChooseMacroBatch(nodes,
                               {.parts = parts,
                                .partition = opened.partition->lease.name(),
                                .data_seed = data.data_seed},
                               labels.view(), data.batch_size, stop));
  choice.parts = opened.partition->partition->parts();
  choice.macro_batch_parts = chosen.parts_per_macro_batch;
  choice.label_distance = chosen.label_distance;
  choice.shuffled_label_distance = chosen.shuffled_label_distance;
  observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("order locality: %d of %d parts in a macro batch; label "
                      "distance %.4f, of shuffled batches %.4f",
                      choice.macro_batch_parts, choice.parts,
                      choice.label_distance, choice.shuffled_label_distance));
  return ChosenLocality{
      .choice = choice,
      .partition = opened.partition->report,
      .memory_bytes = std::max(
          opened.partition->making_memory.TotalBytes(),
          opened.memory.estimate().TotalBytes() + memory.TotalBytes())};
}

BatchOptions InChosenOrder(BatchOptions data, const LocalityChoice& choice,
                           bool shuffled) {
  data.locality_order = false;
  if (!shuffled) {
    data.partition_order =
        PartitionOrder{.macro_batch_parts = choice.macro_batch_parts};
  }
  return data;
}

}  // namespace hearth::job
