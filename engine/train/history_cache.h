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
///
/// It may keep the gradients by embeddings that batches pulled, too, added up
/// until a batch computes the embedding anew and takes them along, so that the
/// layers below learn from all batches, some of them later (after the backward
/// compensation of LMC: Shi, Liang and Wang, ICLR 2023). Without them, as in
/// OUTRE, gradients end at pulled embeddings.
class HistoryCache {
 public:
  /// With room for all of `candidates`, [size(), width] float32, and for as
  /// many gradients if it keeps them. RESOURCE_EXHAUSTED if the system has no
  /// memory.
  static absl::StatusOr<std::unique_ptr<HistoryCache>> Make(
      std::shared_ptr<const sample::HistoryCandidates> candidates,
      int64_t width, bool keeps_gradients);

  int64_t width() const { return width_; }
  bool keeps_gradients() const { return keeps_gradients_; }

  /// Copies the embeddings that `top` pulls to `rows`, [top.pulled.size(),
  /// width]. FAILED_PRECONDITION, naming the node, if one was not pushed.
  absl::Status Pull(const sample::TopLayer& top, float* rows) const;

  /// Keeps `rows`, [top.pushed.size(), width], which batch number `batch` has
  /// computed.
  void Push(const sample::TopLayer& top, int64_t batch, const float* rows);

  /// Adds the gradients by the embeddings that `top` pulls, [top.pulled.size(),
  /// width]. REQUIRES: keeps_gradients().
  void AddGradients(const sample::TopLayer& top, const float* gradients);

  /// Writes those that are kept of the nodes that `top` pushes to `gradients`,
  /// [top.pushed.size(), width], and forgets them. REQUIRES: likewise.
  void TakeGradients(const sample::TopLayer& top, float* gradients);

  /// Forgets all embeddings, not the gradients: an epoch begins.
  void Clear();

  /// Those that batch `next` could still pull, by slot.
  std::vector<sample::LiveHistory> Live(int64_t next, int64_t staleness) const;

  /// The embeddings `live`, as tensors for a checkpoint: "slots", "batches" and
  /// "rows"; and all gradients, if there are some: "gradient_slots" and
  /// "gradients". Empty without either.
  store::TensorMap Save(absl::Span<const sample::LiveHistory> live) const;

  /// Restores what Save gave, and nothing else. DATA_LOSS if it does not fit.
  absl::Status Load(const store::TensorMap& saved);

  /// Bytes of a candidate's embedding, and of its gradient if that is kept.
  static int64_t RowBytes(int64_t width, bool keeps_gradients) {
    return width * static_cast<int64_t>(sizeof(float)) *
           (keeps_gradients ? 2 : 1);
  }

  /// Memory of so many candidates, with that of saving them.
  static uint64_t MemoryBytes(int64_t num_candidates, int64_t width,
                              bool keeps_gradients);

 private:
  HistoryCache(std::shared_ptr<const sample::HistoryCandidates> candidates,
               int64_t width, bool keeps_gradients, io::AlignedMemory memory);

  float* Row(int32_t slot) const;
  float* Gradient(int32_t slot) const;
  absl::Status LoadRows(const store::TensorMap& saved);
  absl::Status LoadGradients(const store::TensorMap& saved);

  const std::shared_ptr<const sample::HistoryCandidates> candidates_;
  const int64_t width_;
  const bool keeps_gradients_;
  io::AlignedMemory memory_;
  // Rows, and then gradients, by slot.
  float* const rows_;
  // By slot: the batch that pushed it; kNever.
  std::vector<int64_t> pushed_by_;
  // By slot: whether there is a gradient; empty if none are kept.
  std::vector<bool> has_gradient_;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_HISTORY_CACHE_H_
