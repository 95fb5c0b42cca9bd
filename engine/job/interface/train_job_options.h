#ifndef HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_
#define HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"

namespace hearth::job {

/// Seeds in the order of a partition's parts. See hearth.v1.PartitionOrder.
struct PartitionOrder {
  /// 0 = as many as plan::DefaultParts finds.
  int64_t parts = 0;
  int64_t macro_batch_parts = 20;
  int64_t rounds = 1;
  bool bloom = false;
};

/// Embeddings of earlier batches in place of computed ones. See
/// hearth.v1.History.
struct HistoryOptions {
  /// Memory for all of it; 0 = a part of the strategy's cache for rows, or,
  /// where there is none, a tenth of the features.
  uint64_t cache_bytes = 0;
  /// 0 = a tenth of an epoch's batches, 100 at most.
  int64_t staleness = 0;
  /// That part of the cache, within 0 .. 1 (alpha); absent: the one that saves
  /// most reads.
  std::optional<double> share = {};
  /// The weight of a drawn neighbor against that of a row (beta); absent: by
  /// pages to be read.
  std::optional<double> sample_weight = {};
  /// First epochs that are also trained without it, to compare; at most epochs.
  int64_t compare_epochs = 0;
  /// Whether gradients end at embeddings of earlier batches, as in OUTRE;
  /// otherwise they reach them when they are computed next
  /// (train::HistoryCache).
  bool stop_gradients = false;
};

/// Fan-outs of one edge type. See hearth.v1.NeighborSampler.
struct EdgeTypeFanouts {
  /// "paper:cites:paper", or its relation alone: the first of that name.
  std::string edge_type;
  std::vector<int32_t> fanouts;

  bool operator==(const EdgeTypeFanouts&) const = default;
};

/// The batches that a train job reads. See hearth.v1.DataSpec.
struct BatchOptions {
  /// The dataset's folder.
  std::string dataset_path;
  /// Neighbors per node and layer, from the seeds outward; -1 = all.
  std::vector<int32_t> fanouts = {10, 10, 10};
  /// The same for edge types that differ.
  std::vector<EdgeTypeFanouts> fanouts_of;
  /// The node type whose labels are predicted; empty: the first that has labels
  /// and training nodes.
  std::string target;
  /// Nodes that are drawn for each layer as a whole; each fan-out is -1 then.
  /// Empty: nodes draw for themselves.
  std::vector<int32_t> layer_nodes;
  int64_t batch_size = 1024;
  /// Trainers that share each batch, data parallel.
  int64_t trainers = 1;
  int64_t epochs = 5;
  /// 0 = epochs, or refresh_epochs.
  int64_t distinct_epochs = 0;
  /// Epochs after which there are new batches; 0 = never.
  int64_t refresh_epochs = 0;
  /// Epoch e has the batches that epoch (first_epoch_key + e) mod
  /// NumEpochKeys() has in a job where this is 0.
  int64_t first_epoch_key = 0;
  uint64_t data_seed = 0;
  /// Absent: seeds are shuffled.
  std::optional<PartitionOrder> partition_order;
  /// Absent: all embeddings are computed.
  std::optional<HistoryOptions> history;
  strategy::StrategyOptions strategy;
  /// Refuses what does not fit into memory as it is, instead of cutting the
  /// strategy's budgets, threads and queues.
  bool strict_budgets = false;

  /// Distinct epochs before they repeat or there are new ones.
  int64_t NumEpochKeys() const;

  /// The epoch of a job with a first_epoch_key of 0 that has the batches of
  /// `epoch`: the least one.
  int64_t EpochOfBatches(int64_t epoch) const;

  /// Whether its passes can be those of other jobs, too: batches come in order,
  /// are the same in each run of an epoch, and depend on nothing but the data.
  bool CanShare() const;

  /// INVALID_ARGUMENT naming the option at fault.
  absl::Status Validate() const;
};

/// Parts of a train job that a run does.
enum class TrainPart {
  kAll,
  /// All but the test.
  kTraining,
  /// The test alone, of the model that an earlier run has trained to its end.
  kTest,
};

/// A train job, whole. See hearth.v1.TrainJobSpec.
struct TrainJobOptions {
  BatchOptions data;
  train::TrainOptions train;
  /// Threads of the pipeline's stages; change no result.
  strategy::PipelineOptions pipeline;
  /// Epochs without a better validation metric before stopping; 0 = never.
  int64_t patience = 0;
  /// Batches between checkpoints; 0 = only at the end of each epoch.
  int64_t checkpoint_every = 0;
  /// Names the job to those with which it shares passes.
  std::string name;
  /// Names what the job has in common with those that may share its passes:
  /// jobs with the same name have equal data options, but for first_epoch_key
  /// and epochs beyond the distinct ones, and pipelines, and a model, or all
  /// have none. Empty = it shares with none.
  std::string sharing_key;
  /// Whether another first_epoch_key may be chosen for it, so that it can join
  /// those that share a pass.
  bool join = false;
  TrainPart part = TrainPart::kAll;
  /// The job's own folder, made if absent: holds the checkpoint and, at the
  /// end, the model. A test alone writes nothing there.
  std::string directory;

  /// Whether anything is trained. Without a model, a job measures the data path
  /// of training alone: nothing is validated or tested.
  bool HasModel() const;

  /// INVALID_ARGUMENT naming the option at fault.
  absl::Status Validate() const;
};

/// The options of a run that tests the model which a job with these has
/// trained, by the same batches as that would. Embeddings of earlier batches
/// are for training alone, but where there are plans, the test's is the one of
/// training, for which these were chosen.
TrainJobOptions ForTest(TrainJobOptions trained);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_
