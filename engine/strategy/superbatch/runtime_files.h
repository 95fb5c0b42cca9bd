#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_RUNTIME_FILES_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_RUNTIME_FILES_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/io/row_reader.h"
#include "engine/plan/access_trace.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/strategy/strategy.h"

/// The dataset as strategies with superbatches open it (SuperbatchData), and
/// the files of a pass (RuntimeFiles).

namespace hearth::strategy {

/// A dataset as superbatches are sampled and executed from it: labels and
/// indptr in memory, indices and features as open files. Movable; thread-safe
/// once opened.
struct SuperbatchData {
  /// FAILED_PRECONDITION for a dataset that lacks features or labels, or has
  /// changed since the import; CANCELLED after a stop.
  static absl::StatusOr<SuperbatchData> Open(
      const store::Dataset& dataset,
      std::shared_ptr<const io::RowCheck> row_check = nullptr,
      const std::stop_token& stop = {});

  store::RowFormat row_format() const {
    return {.dim = features.dim, .dtype = features.dtype};
  }

  store::Labels labels;
  store::StoredTopology topology;
  store::StoredFeatures features;
  /// Null: rows are not checked.
  std::shared_ptr<const io::RowCheck> row_check;
};

/// Whole batches of an epoch, sampled together (Ginex, section 3.1): shards
/// `first` .. `first + count - 1` (numbered as in ShardRange).
struct Superbatch {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
};

/// The files of one pass: a sample for each shard, a plan for each superbatch.
/// The folder is removed with the object. Thread-safe for different shards.
class RuntimeFiles {
 public:
  /// Creates `folder`; removes files that an earlier process left in it.
  /// `files` and `pass` must outlive this.
  static absl::StatusOr<std::unique_ptr<RuntimeFiles>> Create(
      io::FileSystem& files, std::string folder, const Pass& pass);

  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;
  ~RuntimeFiles();

  io::FileSystem& files() const { return files_; }

  /// Bytes that are free on the disk.
  absl::StatusOr<uint64_t> FreeBytes() const {
    return files_.FreeBytes(folder_);
  }

  /// Writes the sample of shard `number`; returns the file's bytes.
  /// RESOURCE_EXHAUSTED if the disk is full.
  absl::StatusOr<uint64_t> WriteSample(int64_t number,
                                       const sample::MiniBatch& sample);

  /// Reads the sample of shard `number` and removes its file.
  absl::StatusOr<sample::MiniBatch> TakeSample(int64_t number);

  /// The input nodes of a sampled superbatch, shard by shard. This must outlive
  /// the trace.
  std::unique_ptr<plan::AccessTrace> NewTrace(const Superbatch& superbatch);

  /// The path of the plan of a superbatch.
  std::string PlanPath(const Superbatch& superbatch) const;

  /// Removes the plan of a superbatch.
  absl::Status RemovePlan(const Superbatch& superbatch);

 private:
  class SampleTrace;

  RuntimeFiles(io::FileSystem& files, std::string folder, const Pass& pass);

  std::string SamplePath(int64_t number) const;

  io::FileSystem& files_;
  const std::string folder_;
  const Pass& pass_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_RUNTIME_FILES_H_
