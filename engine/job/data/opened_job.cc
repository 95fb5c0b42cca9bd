#include "engine/job/data/opened_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/job/data/history.h"
#include "engine/job/data/nodes_file.h"
#include "engine/job/data/passes.h"
#include "engine/sample/history.h"
#include "engine/sample/seed_order.h"
#include "engine/store/converted_rows.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

namespace hearth::job {

namespace {

// Describes the types of a heterograph to a model.
void DescribeTypes(const store::Manifest& manifest, size_t target,
                   train::ModelShape& shape) {
  std::map<std::string, size_t> type_of;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    type_of[type.name] = shape.node_types.size();
    shape.node_types.push_back(
        {.name = type.name, .feature_dim = type.features.shape[1]});
  }
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    shape.edge_types.push_back({.name = store::RelationOf(type),
                                .source = type_of[type.source_type],
                                .destination = type_of[type.destination_type]});
  }
  shape.target_type = target;
}

// Number of nodes of each class among `nodes`; empty unless labels are classes.
std::vector<int64_t> CountClasses(const store::Labels& labels,
                                  const std::vector<store::NodeId>& nodes) {
  if (labels.kind() != store::LabelKind::kClasses) return {};
  std::vector<int64_t> counts(static_cast<size_t>(labels.width()));
  const store::Labels gathered = labels.Gather(nodes);
  for (const int32_t label : gathered.view().classes) {
    if (label >= 0) ++counts[static_cast<size_t>(label)];
  }
  return counts;
}

// Memory of the labels and of three copies of the splits, or of the nodes in
// their place: as they are read, without unlabeled nodes, and in the order of
// an epoch.
strategy::MemoryEstimate OpeningMemory(const store::Dataset& dataset,
                                       const OwnNodes& own) {
  const store::NodeTypeEntry& nodes =
      dataset.manifest().node_types[dataset.target_type()];
  strategy::MemoryEstimate estimate;
  estimate.Add("labels", nodes.labels.file_size_bytes);
  uint64_t seeds = nodes.train.file_size_bytes + nodes.valid.file_size_bytes +
                   nodes.test.file_size_bytes;
  for (const std::optional<NodesFile>* file :
       {&own.train, &own.valid, &own.test}) {
    if (!file->has_value()) continue;
    seeds += static_cast<uint64_t>((*file)->count) * sizeof(store::NodeId);
  }
  estimate.Add("seeds", 3 * seeds);
  return estimate;
}

// FAILED_PRECONDITION, with what can be done, if `dataset` is a shard and the
// job needs more.
absl::Status CheckTakesShards(const JobEnvironment& environment,
                              const BatchOptions& data,
                              const store::Dataset& dataset) {
  if (!dataset.manifest().is_sharded()) return absl::OkStatus();
  std::string problem;
  if (data.automatic.has_value()) {
    problem = "--strategy auto does not choose among the strategies for it";
  } else if (!strategy::KindOf(data.strategy).takes_shards) {
    problem = absl::StrCat("strategy ", strategy::Name(data.strategy),
                           " reads single rows");
  } else if (data.row_dtype.has_value()) {
    problem = "rows of another type need a copy of all rows";
  } else if (environment.remote_rows == nullptr) {
    problem = "the job runs on this machine alone";
  }
  if (problem.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "dataset ", dataset.manifest().name,
      " has a part of its feature rows here (--placement sharded), but ",
      problem,
      ": train with --machines on all members that have the other rows, with "
      "--strategy diskgnn or foresight, or copy the whole dataset"));
}

// Opens the dataset of `data` for training.
absl::StatusOr<std::unique_ptr<store::Dataset>> OpenDataset(
    const JobEnvironment& environment, const BatchOptions& data) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(environment.files, data.dataset_path,
                           environment.verified, environment.remote_rows));
  if (!data.target.empty()) {
    HEARTH_RETURN_IF_ERROR(dataset->ChooseTarget(data.target));
  }
  HEARTH_RETURN_IF_ERROR(CheckTrainable(*dataset, data));
  HEARTH_RETURN_IF_ERROR(CheckTakesShards(environment, data, *dataset));
  return dataset;
}

// Gives `dataset` the rows that `data` asks for.
absl::StatusOr<std::optional<RowCopy>> ChooseRows(
    const JobEnvironment& environment, const OpenJobOptions& options,
    std::unique_ptr<store::Dataset>& dataset, Observer& observer,
    const std::stop_token& stop) {
  const BatchOptions& data = options.data;
  if (!data.row_dtype.has_value()) return std::nullopt;
  std::optional<RowCopy> copy;
  if (!options.forecast_only) {
    HEARTH_ASSIGN_OR_RETURN(copy, ConvertRows(environment, *data.row_dtype,
                                              dataset, observer, stop));
  } else if (store::TakesLess(dataset->manifest(), *data.row_dtype)) {
    dataset = store::AsIfConverted(std::move(dataset), *data.row_dtype);
  }
  if (!data.target.empty()) {
    HEARTH_RETURN_IF_ERROR(dataset->ChooseTarget(data.target));
  }
  return copy;
}

// Puts the nodes in `file`, if there is one, in the place of `nodes`.
absl::Status TakeOwn(io::FileSystem& files, const store::Dataset& dataset,
                     const std::optional<NodesFile>& file,
                     std::vector<store::NodeId>& nodes) {
  if (!file.has_value()) return absl::OkStatus();
  const store::Manifest& manifest = dataset.manifest();
  const size_t target = dataset.target_type();
  HEARTH_ASSIGN_OR_RETURN(
      nodes,
      LoadNodesFile(files, *file, manifest.node_types[target].num_nodes));
  const store::NodeId first = store::NodeSpace(manifest).First(target);
  for (store::NodeId& node : nodes) node += first;
  return absl::OkStatus();
}

// Loads the labeled nodes of each split, or those in its place; with
// `training_only`, of the training split alone.
absl::StatusOr<store::Split> LoadNodes(io::FileSystem& files,
                                       const store::Dataset& dataset,
                                       const store::Labels& labels,
                                       const OwnNodes& own, bool training_only,
                                       Observer& observer) {
  HEARTH_ASSIGN_OR_RETURN(store::Split split, dataset.LoadSplit());
  HEARTH_RETURN_IF_ERROR(TakeOwn(files, dataset, own.train, split.train));
  HEARTH_RETURN_IF_ERROR(TakeOwn(files, dataset, own.valid, split.valid));
  HEARTH_RETURN_IF_ERROR(TakeOwn(files, dataset, own.test, split.test));
  if (training_only) {
    split.valid.clear();
    split.test.clear();
  }
  HEARTH_ASSIGN_OR_RETURN(LabeledSplit labeled,
                          WithoutUnlabeled(std::move(split), labels, own));
  for (const std::string& warning : labeled.warnings) {
    observer.OnLog(Severity::kWarning, warning);
  }
  return std::move(labeled.nodes);
}

// Orders the training nodes: by the parts of `partition`, or shuffled without
// one.
std::unique_ptr<sample::SeedOrder> OrderSeeds(
    const BatchOptions& data, const std::optional<SeedPartition>& partition,
    std::vector<store::NodeId> nodes) {
  if (!partition.has_value()) {
    return sample::NewShuffledOrder(std::move(nodes), data.data_seed);
  }
  const std::vector<uint16_t> parts = PartsOf(*partition->partition, nodes);
  return sample::NewPartitionOrder(
      nodes, {.parts = parts,
              .parts_per_macro_batch =
                  static_cast<int>(data.partition_order->macro_batch_parts),
              .partition = partition->lease.name(),
              .data_seed = data.data_seed});
}

// Chooses the history of the training passes and gives it to them.
absl::Status AddHistory(const JobEnvironment& environment,
                        const OpenJobOptions& options, OpenedJob& opened,
                        Observer& observer, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      ChosenHistory history,
      ChooseHistory(environment,
                    {.dataset = *opened.dataset,
                     .labels = opened.labels,
                     .passes = opened.passes,
                     .data = opened.data,
                     .partition = opened.partition.has_value()
                                      ? opened.partition->partition
                                      : nullptr,
                     .embedding_width = options.embedding_width,
                     .samplers = options.pipeline.samplers,
                     .topology = strategy::WithAutoTopology(
                                     opened.data.strategy, options.pipeline,
                                     opened.dataset->manifest(),
                                     environment.memory.most_bytes())
                                     .topology,
                     .folder = options.folder},
                    observer, stop));
  opened.data.strategy = std::move(history.strategy);
  if (history.policy == nullptr) opened.data.history = std::nullopt;
  opened.passes.SetHistory(std::move(history.policy));
  opened.history = std::move(history.choice);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedJob> OpenJob(const JobEnvironment& environment,
                                  const OpenJobOptions& options,
                                  Observer& observer, std::stop_token stop) {
  BatchOptions data = options.data;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<store::Dataset> dataset,
                          OpenDataset(environment, data));
  HEARTH_ASSIGN_OR_RETURN(
      std::optional<RowCopy> rows,
      ChooseRows(environment, options, dataset, observer, stop));
  // Budgets that are left to the engine depend on the rows.
  data.strategy =
      strategy::WithAutoBudgets(std::move(data.strategy), dataset->manifest(),
                                environment.memory.most_bytes());
  MemoryLedger::Reservation memory;
  HEARTH_RETURN_IF_ERROR(environment.memory.Reserve(
      OpeningMemory(*dataset, data.own_nodes), memory));
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset->LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(
      store::Split nodes,
      LoadNodes(environment.files, *dataset, labels, data.own_nodes,
                options.training_only, observer));
  std::vector<int64_t> class_counts = CountClasses(labels, nodes.train);
  std::optional<SeedPartition> partition;
  if (data.partition_order.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(
        partition,
        OpenPartition(environment, *dataset, nodes.train,
                      data.own_nodes.train.value_or(NodesFile()).sha256,
                      *data.partition_order, data.batch_size, observer, stop));
  }
  HEARTH_ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> fanouts_of,
                          FanoutsByType(dataset->manifest(), data));
  PassSchedule passes(data, OrderSeeds(data, partition, std::move(nodes.train)),
                      std::move(nodes.valid), std::move(nodes.test),
                      std::move(fanouts_of));
  passes.SetClassCounts(std::move(class_counts));
  OpenedJob opened = {.memory = std::move(memory),
                      .dataset = std::move(dataset),
                      .rows = std::move(rows),
                      .labels = std::move(labels),
                      .partition = std::move(partition),
                      .passes = std::move(passes),
                      .data = std::move(data),
                      .history = std::nullopt};
  if (opened.data.history.has_value()) {
    HEARTH_RETURN_IF_ERROR(
        AddHistory(environment, options, opened, observer, stop));
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewModel(
    const JobEnvironment& environment, const TrainJobOptions& options,
    const store::Dataset& dataset, const PassSchedule& passes) {
  const store::Manifest& manifest = dataset.manifest();
  const store::NodeTypeEntry& target =
      manifest.node_types[dataset.target_type()];
  train::ModelShape shape = {
      .feature_dim = store::CommonFormat(manifest).dim,
      .label_kind = target.label_kind,
      .label_width = target.label_width,
      .num_layers = static_cast<int64_t>(options.data.fanouts.size()),
      .trainers = options.data.trainers,
      .window = options.data.window,
      .epoch_steps =
          strategy::NumBatches(passes.num_train(), options.data.batch_size),
      .epochs = options.data.epochs,
      .keeps_best = options.patience > 0,
      .class_counts = passes.class_counts()};
  if (manifest.is_typed()) {
    DescribeTypes(manifest, dataset.target_type(), shape);
  }
  return environment.new_train_step(options.train, shape);
}

uint64_t SelfLoopBytes(const TrainJobOptions& options,
                       const store::Dataset& dataset) {
  const store::Manifest& manifest = dataset.manifest();
  if (!train::CountsSelfLoops(options.train.model) || manifest.is_typed()) {
    return 0;
  }
  return store::SelfLoops::MemoryBytes(manifest.node_types[0].num_nodes,
                                       manifest.edge_types[0].num_edges);
}

uint64_t RankingBytes(const TrainJobOptions& options,
                      const store::Dataset& dataset,
                      const PassSchedule& passes) {
  const store::NodeTypeEntry& nodes =
      dataset.manifest().node_types[dataset.target_type()];
  if (!train::IsRanking(options.train.MetricFor(nodes.label_kind))) return 0;
  return train::Ranking::MemoryBytes(
      std::max(passes.num_valid(), passes.num_test()),
      train::RankedColumns(nodes.label_kind, nodes.label_width));
}

}  // namespace hearth::job
