#ifndef HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_
#define HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/feed/channel.h"
#include "engine/sample/shard_window.h"
#include "engine/store/array_type.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"

/// Options of a train job, without defaults that depend on the machine or the
/// dataset. The server maps hearth.v1.TrainJobSpec to them; Validate() is the
/// only check of each option by itself.

namespace hearth::job {

/// Orders seeds by the parts of a partition. See hearth.v1.PartitionOrder.
struct PartitionOrder {
  /// 0 = plan::DefaultParts.
  int64_t parts = 0;
  int64_t macro_batch_parts = 20;
  int64_t rounds = 1;
  bool bloom = false;
};

/// Use of embeddings of earlier batches instead of computing them. See
/// hearth.v1.History.
struct HistoryOptions {
  /// Memory for embeddings, in bytes; 0 = a part of the strategy's cache for
  /// rows or, if it has none, a tenth of the features' size.
  uint64_t cache_bytes = 0;
  /// Batches for which an embedding is used; 0 = a tenth of an epoch's batches,
  /// at most 100.
  int64_t staleness = 0;
  /// Fraction of the strategy's cache that embeddings get, within 0 .. 1
  /// (alpha); absent: the fraction that saves the most reads.
  std::optional<double> share = {};
  /// Weight of a drawn neighbor relative to a row (beta); absent: by the pages
  /// to read.
  std::optional<double> sample_weight = {};
  /// Number of first epochs that are also trained without the history, to
  /// compare; at most `epochs`.
  int64_t compare_epochs = 0;
  /// Whether gradients end at embeddings of earlier batches, as in OUTRE;
  /// otherwise gradients reach an embedding when it is computed next
  /// (train::HistoryCache).
  bool stop_gradients = false;
};

/// Fan-outs of one edge type. See hearth.v1.NeighborSampler.
struct EdgeTypeFanouts {
  /// "paper:cites:paper", or the relation alone, "cites": the first edge type
  /// with it.
  std::string edge_type;
  std::vector<int32_t> fanouts;

  bool operator==(const EdgeTypeFanouts&) const = default;
};

/// Nodes of the target type in a file (nodes_file.h).
struct NodesFile {
  std::string path;
  int64_t count = 0;
  /// SHA-256 of the ids, as in the file.
  std::string sha256;
};

/// Nodes in place of those of the dataset's split; absent: the dataset's.
struct OwnNodes {
  std::optional<NodesFile> train;
  std::optional<NodesFile> valid;
  std::optional<NodesFile> test;

  /// Differs between different nodes; empty without any.
  std::string Name() const;
};

/// The batches that a train job reads. See hearth.v1.DataSpec.
struct BatchOptions {
  /// Folder of the dataset.
  std::string dataset_path;
  /// Neighbors per node in each layer, from the seeds outward; -1 = all.
  std::vector<int32_t> fanouts = {10, 10, 10};
  /// Fan-outs of edge types that differ from `fanouts`.
  std::vector<EdgeTypeFanouts> fanouts_of;
  /// Node type whose labels are predicted; empty: the first that has labels and
  /// training nodes.
  std::string target;
  /// Seeds that need not be labeled. Only for feeds.
  OwnNodes own_nodes;
  /// Whether the dataset must have labels. False for feeds: batches of datasets
  /// without any have none.
  bool needs_labels = true;
  /// Nodes drawn for each layer as a whole; each fan-out is then -1. Empty:
  /// neighbors are drawn for each node.
  std::vector<int32_t> layer_nodes;
  /// Whether each node draws in one layer alone, so that a batch is one graph;
  /// not with layer_nodes or a history.
  bool once = false;
  int64_t batch_size = 1024;
  /// Number of data-parallel trainers that share each batch.
  int64_t trainers = 1;
  /// Which trainers of a batch these are, where several machines share it; with
  /// neither a history, whose embeddings each machine would have a part of, nor
  /// a strategy that is not exact (strategy::IsExact).
  sample::ShardWindow window;
  int64_t epochs = 5;
  /// Epochs with different batches, which then repeat; 0 = epochs, or
  /// refresh_epochs.
  int64_t distinct_epochs = 0;
  /// Number of epochs after which batches are sampled again; 0 = never.
  int64_t refresh_epochs = 0;
  /// Key of the first epoch: epoch e has the batches of epoch (first_epoch_key
  /// + e) mod NumEpochKeys() of a job with key 0.
  int64_t first_epoch_key = 0;
  uint64_t data_seed = 0;
  /// Absent: seeds are shuffled.
  std::optional<PartitionOrder> partition_order;
  /// Whether seeds are ordered by the partition of the default parts, with
  /// macro batches that the job chooses (locality.h) and a guard
  /// (locality_guard.h). `partition_order` and `history` are then absent. See
  /// hearth.v1.LocalityOrder.
  bool locality_order = false;
  /// Absent: all embeddings are computed.
  std::optional<HistoryOptions> history;
  strategy::StrategyOptions strategy;
  /// Type of feature rows on disk and in caches (store/row_codec.h), where it
  /// takes fewer bytes than theirs; absent: as they are stored.
  std::optional<store::DType> row_dtype;
  /// Set: the engine chooses the strategy, with these budgets, for the machine
  /// and the job (auto_choice.h). Until then `strategy` is MemoryOptions, whose
  /// results the job has.
  std::optional<strategy::CommonBudgets> automatic;
  /// Refuses a job that does not fit into memory, instead of cutting the
  /// strategy's budgets, threads and queues.
  bool strict_budgets = false;

  /// Number of distinct epochs before they repeat or are sampled again.
  int64_t NumEpochKeys() const;

  /// The first epoch, of a job with a first_epoch_key of 0, that has the
  /// batches of this job's `epoch`.
  int64_t EpochOfBatches(int64_t epoch) const;

  /// Whether other jobs can use its passes: batches come in order, are the same
  /// in each run of an epoch, and depend on the data alone.
  bool CanShare() const;

  /// INVALID_ARGUMENT naming the option at fault.
  absl::Status Validate() const;
};

/// Part of a train job that a run does.
enum class TrainPart {
  kAll,
  /// Everything but the test.
  kTraining,
  /// The test alone, of the model that an earlier run has trained to its end.
  kTest,
};

/// The clients of a feed job, which train a model of their own. See
/// hearth.v1.FeedSpec.
struct FeedOptions {
  /// One for each trainer.
  std::vector<std::shared_ptr<feed::Channel>> channels;
  /// Batches that a client may hold.
  int credits = 4;
};

/// Options of a train job, or of a feed. See hearth.v1.TrainJobSpec.
struct TrainJobOptions {
  BatchOptions data;
  train::TrainOptions train;
  /// Numbers of threads of the pipeline's stages; they change no result.
  strategy::PipelineOptions pipeline;
  /// Epochs without a better validation metric before training stops; 0 =
  /// never.
  int64_t patience = 0;
  /// Batches between checkpoints; 0 = only at the end of each epoch.
  int64_t checkpoint_every = 0;
  /// Name under which jobs that share passes with it report it.
  std::string name;
  /// Key of the jobs that may share passes: jobs with equal keys have equal
  /// batch options, except for first_epoch_key and epochs beyond the distinct
  /// ones, equal pipelines, and either all a model or none. Empty: the job
  /// shares with none.
  std::string sharing_key;
  /// Whether the engine may choose another first_epoch_key, so that the job can
  /// join a running group.
  bool join = false;
  TrainPart part = TrainPart::kAll;
  /// Set for a feed, of which `train`, `patience`, `checkpoint_every` and
  /// `part` are not used.
  std::optional<FeedOptions> feed = {};
  /// The job's own folder, made if absent: holds the checkpoint and, at the
  /// end, the model. A run that only tests writes nothing there.
  std::string directory;

  /// Whether anything is trained, here or by a feed's client. A job without a
  /// model measures the data path of training; it does not validate or test.
  bool HasModel() const;

  /// INVALID_ARGUMENT naming the option at fault.
  absl::Status Validate() const;
};

/// Options of a run that tests the model which a job with the options `trained`
/// has trained, on the same test batches. Embeddings of earlier batches are
/// used in training only; but with plans, the test uses the training's plan,
/// for which they were chosen.
TrainJobOptions ForTest(TrainJobOptions trained);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_TRAIN_JOB_OPTIONS_H_
