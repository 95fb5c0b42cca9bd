#ifndef HEARTH_ENGINE_JOB_HISTORY_BASIS_H_
#define HEARTH_ENGINE_JOB_HISTORY_BASIS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/job/job_passes.h"
#include "engine/job/train_job_options.h"
#include "engine/plan/partition/partition.h"
#include "engine/store/dataset.h"
#include "engine/store/dtype.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"

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

  const store::NodeTypeEntry& nodes() const {
    return dataset.manifest().node_types[0];
  }
  int64_t num_nodes() const { return nodes().num_nodes; }
  int64_t row_bytes() const {
    return nodes().features.shape[1] * store::SizeOf(nodes().features.dtype);
  }
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_HISTORY_BASIS_H_
