#ifndef HEARTH_ENGINE_JOB_INTERFACE_REPORT_H_
#define HEARTH_ENGINE_JOB_INTERFACE_REPORT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

/// Results of jobs: of epochs, of whole jobs and of forecasts; and the choice
/// of a history, with its file in the job's folder. Plain values; the server
/// maps them to hearth.v1.

namespace hearth::job {

/// The choice of the embeddings of earlier batches that a job keeps.
struct HistoryChoice {
  /// Number of embeddings, and the memory for them.
  int64_t embeddings = 0;
  uint64_t bytes = 0;
  /// Number of batches after which an embedding is computed again.
  int64_t staleness = 1;
  /// Fraction of the memory for rows that the embeddings got, within 0 .. 1
  /// (alpha); absent if they have memory of their own.
  std::optional<double> share;
  /// Weight of a drawn neighbor relative to a row (beta).
  double sample_weight = 1;
  /// Rows per seed without a history, in this order of seeds and in shuffled
  /// order (the redundancy ratio of OUTRE, section 3.1).
  double redundancy = 0;
  double shuffled_redundancy = 0;
  /// Name of the profile that led to the choice.
  std::string profile;

  bool operator==(const HistoryChoice&) const = default;
};

/// A choice with the nodes whose embeddings are kept, indexed by slot. Later
/// runs of a job use it whatever their budgets are.
struct KeptHistoryChoice {
  HistoryChoice choice;
  std::vector<store::NodeId> nodes;
};

/// Writes the choice in a job's folder, durably.
absl::Status WriteHistoryChoice(io::FileSystem& files,
                                const std::string& folder,
                                const KeptHistoryChoice& kept);

/// Reads the choice. NOT_FOUND if none was written; DATA_LOSS, naming the file,
/// if it is damaged; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<KeptHistoryChoice> ReadHistoryChoice(io::FileSystem& files,
                                                    const std::string& folder);

/// The order of seeds that a job of order locality has chosen, and what its
/// guard has found.
struct LocalityChoice {
  /// Number of parts of the partition, and of a macro batch.
  int64_t parts = 0;
  int64_t macro_batch_parts = 0;
  /// sample::LabelDistance of batches in this order, and in shuffled order.
  double label_distance = 0;
  double shuffled_label_distance = 0;
  /// Validation metric after the last epoch that the guard compares, in this
  /// order and in shuffled order. Absent before, and where there is no guard.
  std::optional<double> valid_metric;
  std::optional<double> shuffled_valid_metric;
  /// Rows that this epoch needed in either order; 0 while there are no metrics.
  int64_t rows_needed = 0;
  int64_t shuffled_rows_needed = 0;
  /// Whether later epochs are shuffled.
  bool reverted = false;

  bool operator==(const LocalityChoice&) const = default;
};

/// Result of an epoch of a job with a history, trained without it, or of a job
/// of order locality, trained in shuffled order.
struct ExactEpoch {
  double loss = 0;
  std::optional<double> valid_metric;
  /// Seconds and rows of the training pass.
  double seconds = 0;
  int64_t rows_needed = 0;
};

/// A strategy with its settings, and what a job costs with it.
struct AutoCandidate {
  std::string strategy = {};
  /// Rows in memory, as asked for, and reads in flight; 0 where it has none.
  uint64_t cpu_cache_bytes = 0;
  int io_depth = 0;
  /// Epochs prepared before the first batch; 0: as the strategy has it by
  /// default, or it prepares none or all.
  double first_epochs = 0;
  /// Why it cannot be chosen; empty if it can. Then nothing else is set.
  std::string refusal = {};
  /// Seconds of the whole job, and parts of them.
  double seconds = 0;
  double prepare_seconds = 0;
  double first_epoch_seconds = 0;
  double epoch_seconds = 0;
  /// Bytes read in a later epoch, of the plan on disk, and in memory.
  uint64_t bytes_read = 0;
  uint64_t disk_bytes = 0;
  uint64_t memory_bytes = 0;
  bool plan_exists = false;
  std::vector<strategy::BudgetCut> cuts = {};

  bool operator==(const AutoCandidate&) const = default;
};

/// The strategy that the engine has chosen for a job.
struct AutoChoice {
  std::string strategy = {};
  strategy::CommonBudgets budgets = {};
  /// For people: its price, and those of the others.
  std::string reason = {};
  /// The cheapest first, then those that cannot be chosen. Where memory holds
  /// everything, it is the only one, without a price.
  std::vector<AutoCandidate> candidates = {};
  /// What prices follow from: bytes per second read and written in order, 4 KiB
  /// reads per second by one thread; processor seconds to sample a batch,
  /// seconds to train on it; processors; batches that were sampled. 0 if
  /// nothing was measured.
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double reads_per_second = 0;
  double sample_seconds = 0;
  double step_seconds = 0;
  int processors = 0;
  int64_t sampled_batches = 0;
  /// The strategy that the job had before, and left because it was slower than
  /// told; empty if it has had no other.
  std::string before = {};
  /// Whether it was chosen a second time, and so stays.
  bool is_final = false;
  /// Why it is to be chosen again: measured seconds of an epoch, and the epochs
  /// that were trained by then; 0 = it is not.
  double slow_epoch_seconds = 0;
  int64_t trained_epochs = 0;

  bool operator==(const AutoChoice&) const = default;
};

/// Report of an epoch of training. Numbers without a phase in their name are
/// about the training pass.
struct EpochReport {
  /// Number of the epoch, from 1.
  uint32_t epoch = 0;
  /// Mean training loss, weighted by the batches' seeds.
  double loss = 0;
  train::Metric metric = train::Metric::kAccuracy;
  /// Value of the metric on the validation nodes; absent without any.
  std::optional<double> valid_metric;
  strategy::PassReport training;
  strategy::PassReport validation;
  /// Result without the job's history; absent unless compared.
  std::optional<ExactEpoch> exact;
};

/// Report of a prepare job.
struct PrepareReport {
  /// Preparation of the strategy's plan; absent if only a partition was to be
  /// made.
  std::optional<strategy::PreparationReport> preparation;
  /// Preparation of the partition that orders seeds; absent if they are
  /// shuffled.
  std::optional<strategy::PreparationReport> partition;
  /// Peak and upper bound of memory: see TrainReport.
  uint64_t peak_memory_bytes = 0;
  uint64_t memory_bound_bytes = 0;
  strategy::MemoryEstimate memory;
  /// See TrainReport.
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
};

/// Forecast of a train job, and of the memory that it would hold.
struct ExplainReport : strategy::Forecast {
  /// Memory of the explained job: see TrainReport.
  strategy::MemoryEstimate memory;
  uint64_t memory_bytes = 0;
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
  /// Number of training batches of an epoch, and bytes of the rows they need.
  uint64_t batches = 0;
  uint64_t bytes_needed = 0;
  /// See TrainReport.
  std::optional<HistoryChoice> history;
  std::optional<LocalityChoice> locality;
  std::optional<AutoChoice> automatic;
};

/// Preparation at the beginning of a period of a train job.
struct PeriodPreparation {
  /// First epoch of the period, from 1.
  uint32_t first_epoch = 0;
  strategy::PreparationReport preparation;
};

/// The jobs with which a job shared passes over the data.
struct Peers {
  /// Names of the jobs.
  std::set<std::string> jobs;
  /// Bytes read by all passes in which the job took part, including bytes
  /// before its first batch in a pass.
  int64_t bytes_alone = 0;
  /// Part of `bytes_alone` charged to the job: jobs that share a pass bear
  /// equal parts.
  int64_t bytes_charged = 0;
};

/// Where in a job another number of machines began to train it.
struct MachineChange {
  /// Epoch and its first batch that they trained, from 0.
  int64_t epoch = 0;
  int64_t batch = 0;
  int64_t machines = 1;
};

/// Report of a train job. Epochs are reported as they end (Observer::OnEpoch).
struct TrainReport {
  train::Metric metric = train::Metric::kAccuracy;
  /// Value of the metric on the test nodes; absent until the end, or without
  /// any.
  std::optional<double> test_metric;
  strategy::PassReport test;
  /// Highest sampled RssAnon + RssShmem of the process while the job ran.
  uint64_t peak_memory_bytes = 0;
  /// Hexadecimal SHA-256 of all training batch losses as little-endian
  /// float32, in order.
  std::string loss_digest;
  /// Epoch, from 1, whose weights were kept.
  uint32_t kept_epoch = 0;
  /// Folder with model.safetensors and config.json.
  std::string model_path;
  /// Precision to which the model's products rounded their factors; never
  /// kAuto.
  train::Precision precision = train::Precision::kFloat32;
  /// Number of the GPU that trained; absent = the processor.
  std::optional<int> gpu = {};
  /// Number of times that the job was resumed from a checkpoint.
  uint32_t resumes = 0;
  /// Bytes of features that this run read in training passes.
  uint64_t bytes_read = 0;
  /// Where another number of machines began to train it.
  std::vector<MachineChange> machine_changes;
  /// Upper bound of peak_memory_bytes: the memory that the process held before
  /// the job, plus the job's reservation, `memory`.
  uint64_t memory_bound_bytes = 0;
  strategy::MemoryEstimate memory;
  /// Budgets that were cut so that the job fits into the memory that a job may
  /// take at most (MemoryLedger::most_bytes), and this limit.
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
  /// Seconds from the start of this run to its first batch.
  std::optional<double> first_batch_seconds;
  /// Whether an earlier job left the topology and caches.
  bool warm_start = false;
  /// Parts of the dataset ("neighbors", "rows") that this run verified once
  /// before the first batch, and again when their file had changed; all else
  /// was verified at each read.
  std::vector<std::string> verified_once;
  /// Periods of this run that began with a preparation.
  std::vector<PeriodPreparation> preparations;
  /// Preparation of the partition that ordered seeds; absent if they were
  /// shuffled.
  std::optional<strategy::PreparationReport> partition;
  /// The embeddings of earlier batches that training used; absent without a
  /// history.
  std::optional<HistoryChoice> history;
  /// The order that was chosen; absent unless the job's order is locality.
  std::optional<LocalityChoice> locality;
  /// The choice of the strategy; absent where the job names one.
  std::optional<AutoChoice> automatic;
  /// Whether all embeddings were computed, and batches were those of `memory`,
  /// in order (strategy::IsExact), with rows as they are stored.
  bool exact = true;
  /// Type that rows were rounded to (store::RowTypeName); empty if to none.
  std::string row_dtype;
  Peers peers;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_REPORT_H_
