#ifndef HEARTH_ENGINE_TRAIN_HISTORY_CACHE_H_
#define HEARTH_ENGINE_TRAIN_HISTORY_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/safetensors.h"

namespace hearth::train {

/// The embeddings that one training keeps for later batches: the historical
/// embedding cache of OUTRE (section 4.3). Which of them a batch pulls and
/// pushes was decided when it was sampled (sample::HistoryDecisions); this
/// holds the values. Single-owner.
class HistoryCache {
 public:
  /// With room for all of `candidates`, [size(), width] float32.
  /// RESOURCE_EXHAUSTED if the system has no memory.
  static absl::StatusOr<std::unique_ptr<HistoryCache>> Make(
      std::shared_ptr<const sample::HistoryCandidates> candidates,
      int64_t width);

  int64_t width() const { return width_; }

  /// Copies the embeddings that `top` pulls to `rows`, [top.pulled.size(),
  /// width]. FAILED_PRECONDITION, naming the node, if one was not pushed.
  absl::Status Pull(const sample::TopLayer& top, float* rows) const;

  /// Keeps `rows`, [top.pushed.size(), width], which batch number `batch` has
  /// computed.
  void Push(const sample::TopLayer& top, int64_t batch, const float* rows);

  /// Forgets all embeddings: an epoch begins.
  void Clear();

  /// Those that batch `next` could still pull, by slot.
  std::vector<sample::LiveHistory> Live(int64_t next, int64_t staleness) const;

  /// The embeddings `live`, as tensors for a checkpoint: "slots", "batches" and
  /// "rows".
  store::TensorMap Save(absl::Span<const sample::LiveHistory> live) const;

  /// Restores what Save gave, and nothing else. DATA_LOSS if it does not fit.
  absl::Status Load(const store::TensorMap& saved);

  /// Memory of so many candidates, with that of saving them.
  static uint64_t MemoryBytes(int64_t num_candidates, int64_t width);

 private:
  HistoryCache(std::shared_ptr<const sample::HistoryCandidates> candidates,
               int64_t width, io::AlignedMemory memory);

  float* Row(int32_t slot) const;

  const std::shared_ptr<const sample::HistoryCandidates> candidates_;
  const int64_t width_;
  io::AlignedMemory memory_;
  float* const rows_;
  // By slot: the batch that pushed it; kNever.
  std::vector<int64_t> pushed_by_;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_HISTORY_CACHE_H_
