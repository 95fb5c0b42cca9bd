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

namespace hearth::job {

/// The data of a job whose training passes are to have a history.
struct HistoryBasis {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const PassSchedule& passes;
  const BatchOptions& data;
  /// The partition that orders the seeds; null if none does.
  std::shared_ptr<const plan::Partition> partition;
  /// Width of an embedding; 0 without a model.
  int64_t embedding_width = 0;
  /// Threads that sample.
  int samplers = 1;
  /// The job's own folder, where what is chosen is kept for the job to go on
  /// with; empty = it is not kept.
  std::string folder = {};

  /// Whether nodes or edges are of several types.
  bool is_typed() const { return dataset.manifest().is_typed(); }
  /// Nodes of all types together.
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
  /// Null if no embedding is worth its memory: all are computed.
  std::shared_ptr<const sample::HistoryPolicy> policy;
  /// The strategy's options without the memory that the embeddings take of its
  /// cache.
  strategy::StrategyOptions strategy;
};

/// INVALID_ARGUMENT, with the numbers, if the memory that `data` gives its
/// history has no room for a single embedding.
absl::Status CheckHistoryMemory(const BatchOptions& data,
                                const store::Manifest& manifest,
                                int64_t embedding_width);

/// Chooses the nodes whose embeddings are kept: those whose neighborhoods take
/// most reading in the first training pass, which is profiled for it (OUTRE,
/// section 4.4). There are as many as have room in the memory given for them;
/// if none is given, and the strategy has a cache for rows, they share that so
/// that most reads are saved; else in a tenth of the features' size. What is
/// chosen stays in the job's folder, and holds when the job goes on.
///
/// Errors as CheckHistoryMemory, before anything is made; INVALID_ARGUMENT,
/// with the numbers, if the cache has become smaller than what they take of it;
/// errors of OpenProfile; CANCELLED when a stop is requested.
absl::StatusOr<ChosenHistory> ChooseHistory(const JobEnvironment& environment,
                                            const HistoryBasis& basis,
                                            Observer& observer,
                                            const std::stop_token& stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_HISTORY_H_
