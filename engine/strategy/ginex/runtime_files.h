#ifndef HEARTH_ENGINE_STRATEGY_GINEX_RUNTIME_FILES_H_
#define HEARTH_ENGINE_STRATEGY_GINEX_RUNTIME_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/sample/mini_batch.h"

namespace hearth::strategy {

/// Batches `first` .. `first + count - 1` of an epoch, sampled together (Ginex,
/// section 3.1).
struct Superbatch {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
};

/// The files of one pass, in a folder that goes with this object: a sample for
/// each batch, a plan for each superbatch. Thread-safe for different batches.
class RuntimeFiles {
 public:
  /// Creates `folder`, emptied of what an earlier process left there. `files`
  /// must outlive this.
  static absl::StatusOr<std::unique_ptr<RuntimeFiles>> Create(
      io::FileSystem& files, std::string folder, uint64_t epoch_key);

  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;
  ~RuntimeFiles();

  io::FileSystem& files() const { return files_; }

  /// What is left on the disk.
  absl::StatusOr<uint64_t> FreeBytes() const {
    return files_.FreeBytes(folder_);
  }

  /// Writes the sample of a batch; its bytes. RESOURCE_EXHAUSTED if the disk is
  /// full.
  absl::StatusOr<uint64_t> WriteSample(const sample::MiniBatch& batch);

  /// The sample of `batch`, whose file is gone afterwards.
  absl::StatusOr<sample::MiniBatch> TakeSample(int64_t batch);

  /// The input nodes of a sampled superbatch, batch by batch. This must outlive
  /// the trace.
  std::unique_ptr<plan::AccessTrace> NewTrace(const Superbatch& superbatch);

  /// Where the plan of a superbatch is to be.
  std::string PlanPath(const Superbatch& superbatch) const;

  /// Removes the plan of a superbatch.
  absl::Status RemovePlan(const Superbatch& superbatch);

 private:
  class SampleTrace;

  RuntimeFiles(io::FileSystem& files, std::string folder, uint64_t epoch_key);

  std::string SamplePath(int64_t batch) const;
  sample::BatchKey Key(int64_t batch) const;

  io::FileSystem& files_;
  const std::string folder_;
  const uint64_t epoch_key_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GINEX_RUNTIME_FILES_H_
