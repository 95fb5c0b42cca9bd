#ifndef HEARTH_ENGINE_JOB_HISTORY_BASIS_H_
#define HEARTH_ENGINE_JOB_HISTORY_BASIS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/job/job_passes.h"
#include "engine/job/train_job_options.h"
#include "engine/plan/partition/partition.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/node_space.h"
#include "engine/store/row_format.h"

namespace hearth::job {

/// The data of a job whose training passes are to have a history.
struct HistoryBasis {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const JobPasses& passes;
  const DataOptions& data;
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

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_HISTORY_BASIS_H_
