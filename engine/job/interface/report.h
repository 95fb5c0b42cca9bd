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
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

namespace hearth::job {

/// The embeddings of earlier batches that a job keeps, and why.
struct HistoryChoice {
  /// Embeddings, and the memory for them.
  int64_t embeddings = 0;
  uint64_t bytes = 0;
  /// Batches after which one is computed anew.
  int64_t staleness = 1;
  /// The part of the memory for rows that they got, within 0 .. 1 (alpha);
  /// absent where they have memory of their own.
  std::optional<double> share;
  /// The weight of a drawn neighbor against that of a row (beta).
  double sample_weight = 1;
  /// Rows for each seed without a history, in this order of the seeds, and if
  /// they were shuffled (the redundancy ratio of OUTRE, section 3.1).
  double redundancy = 0;
  double shuffled_redundancy = 0;
  /// The name of the profile that this follows from.
  std::string profile;

  bool operator==(const HistoryChoice&) const = default;
};

/// The same with the nodes whose embeddings these are, by slot: what a job goes
/// on with, whatever its budgets then.
struct KeptHistoryChoice {
  HistoryChoice choice;
  std::vector<store::NodeId> nodes;
};

/// Writes the choice in a job's folder, durably.
absl::Status WriteHistoryChoice(io::FileSystem& files,
                                const std::string& folder,
                                const KeptHistoryChoice& kept);

/// Reads it. NOT_FOUND if none was written; DATA_LOSS, naming the file, if it
/// is damaged; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<KeptHistoryChoice> ReadHistoryChoice(io::FileSystem& files,
                                                    const std::string& folder);

/// An epoch of a job with a history, trained without it.
struct ExactEpoch {
  double loss = 0;
  std::optional<double> valid_metric;
  /// Seconds and rows of the training pass.
  double seconds = 0;
  int64_t rows_needed = 0;
};

/// One epoch of training; the figures are those of the training pass alone.
struct EpochReport {
  /// The epoch's number, from 1.
  uint32_t epoch = 0;
  /// Mean training loss, weighted by the batches' seeds.
  double loss = 0;
  train::Metric metric = train::Metric::kAccuracy;
  /// The metric's value on the validation nodes; absent without any.
  std::optional<double> valid_metric;
  strategy::PassReport training;
  strategy::PassReport validation;
  /// Result without the job's history; absent unless compared.
  std::optional<ExactEpoch> exact;
};

/// The report of a prepare job.
struct PrepareReport {
  /// The strategy's plan; absent if only a partition was to be made.
  std::optional<strategy::PreparationReport> preparation;
  /// The partition that orders seeds; absent if none does.
  std::optional<strategy::PreparationReport> partition;
  /// Peak and upper bound of memory, as in TrainReport.
  uint64_t peak_memory_bytes = 0;
  uint64_t memory_bound_bytes = 0;
  strategy::MemoryEstimate memory;
  /// As in TrainReport.
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
};

/// The forecast of a train job, and what it would hold.
struct ExplainReport : strategy::Forecast {
  /// As in TrainReport, of the job that is explained.
  strategy::MemoryEstimate memory;
  uint64_t memory_bytes = 0;
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
  /// Batches of an epoch of training, and the bytes of the rows it needs.
  uint64_t batches = 0;
  uint64_t bytes_needed = 0;
  /// As in TrainReport.
  std::optional<HistoryChoice> history;
};

/// The preparation with which a period of a train job began.
struct PeriodPreparation {
  /// The period's first epoch, from 1.
  uint32_t first_epoch = 0;
  strategy::PreparationReport preparation;
};

/// The jobs with which a job shared passes over the data.
struct Peers {
  /// Their names.
  std::set<std::string> jobs;
  /// Bytes that the passes read in which the job took part; also those before
  /// its first batch in a pass that it entered behind that.
  int64_t bytes_alone = 0;
  /// The job's part of them, where jobs that share a pass bear equal parts.
  int64_t bytes_charged = 0;
};

/// The report of a train job. Its epochs are reported as they end
/// (Observer::OnEpoch).
struct TrainReport {
  train::Metric metric = train::Metric::kAccuracy;
  /// The metric's value on the test nodes; absent until the end, or without
  /// any.
  std::optional<double> test_metric;
  strategy::PassReport test;
  /// Highest sampled RssAnon + RssShmem of the process while the job ran.
  uint64_t peak_memory_bytes = 0;
  /// Hexadecimal SHA-256 of all training batch losses as little-endian
  /// float32, in order.
  std::string loss_digest;
  /// The epoch, from 1, whose weights were kept.
  uint32_t kept_epoch = 0;
  /// Folder with model.safetensors and config.json.
  std::string model_path;
  /// Precision that the model's products rounded their factors to: never kAuto.
  train::Precision precision = train::Precision::kFloat32;
  /// Number of the GPU that trained; absent: the processor did.
  std::optional<int> gpu = {};
  /// Number of times that the job went on from a checkpoint.
  uint32_t resumes = 0;
  /// Upper bound of peak_memory_bytes: the memory that the process held before
  /// the job, and the job's reservation, `memory`.
  uint64_t memory_bound_bytes = 0;
  strategy::MemoryEstimate memory;
  /// Budgets that are smaller than asked, so that the job fits into the memory
  /// that a job may take at most (MemoryLedger::most_bytes), and that.
  std::vector<strategy::BudgetCut> cuts;
  uint64_t memory_limit_bytes = 0;
  /// Seconds from the start of this run to its first batch.
  std::optional<double> first_batch_seconds;
  /// Whether topology and caches were those of an earlier job.
  bool warm_start = false;
  /// Parts of the dataset ("neighbors", "rows") that this run verified once
  /// before the first batch, and again when their file had changed, rather than
  /// whenever they were read, as all else.
  std::vector<std::string> verified_once;
  /// The periods of this run that began with a preparation.
  std::vector<PeriodPreparation> preparations;
  /// The partition that ordered seeds; absent if none did.
  std::optional<strategy::PreparationReport> partition;
  /// The embeddings of earlier batches that training used; absent without a
  /// history.
  std::optional<HistoryChoice> history;
  /// Whether all embeddings were computed, and batches came in order.
  bool exact = true;
  Peers peers;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_REPORT_H_
