#ifndef HEARTH_ENGINE_JOB_DATA_HISTORY_H_
#define HEARTH_ENGINE_JOB_DATA_HISTORY_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/data/passes.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/history.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pass.h"

/// The history of a job: which embeddings of earlier batches are kept, in which
/// memory. Chosen once for a job, before its first batch.

namespace hearth::job {

/// Arguments of ChooseHistory: the data of a job whose training passes are to
/// have a history.
struct HistoryBasis {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const PassSchedule& passes;
  const BatchOptions& data;
  /// Partition that orders the seeds; null if they are shuffled.
  std::shared_ptr<const plan::Partition> partition;
  /// Width of an embedding, in numbers; 0 without a model.
  int64_t embedding_width = 0;
  /// Number of threads that sample.
  int samplers = 1;
  /// Where the topology is while the job samples; the profile of its batches is
  /// sampled in slabs where the job is.
  strategy::TopologyPlace topology = strategy::TopologyPlace::kAuto;
  /// The job's own folder, which keeps the choice for later runs of the job;
  /// empty = the choice is not kept.
  std::string folder = {};

  /// Whether nodes or edges are of several types.
  bool is_typed() const { return dataset.manifest().is_typed(); }
  /// Number of nodes of all types.
  int64_t num_nodes() const {
    return store::NodeSpace(dataset.manifest()).num_nodes();
  }
  int64_t row_bytes() const {
    return store::CommonFormat(dataset.manifest()).row_bytes();
  }
};

/// The history of a job's training passes.
struct ChosenHistory {
  HistoryChoice choice;
  /// Null if no embedding is worth its memory: all embeddings are computed.
  std::shared_ptr<const sample::HistoryPolicy> policy;
  /// Options of the strategy, whose cache is reduced by the memory of the
  /// embeddings.
  strategy::StrategyOptions strategy;
};

/// INVALID_ARGUMENT, with the numbers, if the memory that `data` gives its
/// history does not suffice for a single embedding.
absl::Status CheckHistoryMemory(const BatchOptions& data,
                                const store::Manifest& manifest,
                                int64_t embedding_width);

/// Chooses the nodes whose embeddings are kept: nodes whose neighborhoods take
/// the most reads in the first training pass, which is profiled for this
/// (OUTRE, section 4.4). Their number is what fits into history.cache_bytes; by
/// default, embeddings and rows share the strategy's cache so that most reads
/// are saved, or, if it has none, embeddings get a tenth of the features' size.
/// The choice is kept in the job's folder, and holds for later runs of the job.
///
/// Errors as CheckHistoryMemory, before anything is made; INVALID_ARGUMENT,
/// with the numbers, if the cache is now smaller than the memory of the
/// embeddings chosen before; errors of profiling: BatchMeasurement::Measure,
/// MemoryLedger::Reserve, FindOrMakePlan and sampling; CANCELLED when a stop is
/// requested.
absl::StatusOr<ChosenHistory> ChooseHistory(const JobEnvironment& environment,
                                            const HistoryBasis& basis,
                                            Observer& observer,
                                            const std::stop_token& stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_HISTORY_H_
