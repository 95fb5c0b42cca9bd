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

/// Embeddings that one training keeps for later batches: the historical
/// embedding cache of OUTRE (section 4.3). Which of them a batch pulls and
/// pushes is decided when it is sampled (sample::HistoryDecisions); this class
/// holds the values. Single-owner.
///
/// It may also keep gradients by pulled embeddings, summed until a batch
/// computes the embedding again and adds them to its own, so that the layers
/// below learn from all batches, from some of them later (after the backward
/// compensation of LMC: Shi, Liang and Wang, ICLR 2023). Without gradients, as
/// in OUTRE, backpropagation ends at pulled embeddings.
class HistoryCache {
 public:
  /// A cache with memory for all of `candidates`, [size(), width] float32, and
  /// for as many gradients if it keeps them. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<HistoryCache>> Make(
      std::shared_ptr<const sample::HistoryCandidates> candidates,
      int64_t width, bool keeps_gradients);

  int64_t width() const { return width_; }
  bool keeps_gradients() const { return keeps_gradients_; }

  /// Copies the embeddings that `top` pulls to `rows`, [top.pulled.size(),
  /// width]. FAILED_PRECONDITION, naming the node, if a node was not pushed.
  absl::Status Pull(const sample::TopLayer& top, float* rows) const;

  /// Keeps `rows`, [top.pushed.size(), width], computed by batch number
  /// `batch`.
  void Push(const sample::TopLayer& top, int64_t batch, const float* rows);

  /// Adds gradients by the embeddings that `top` pulls, [top.pulled.size(),
  /// width]. REQUIRES: keeps_gradients().
  void AddGradients(const sample::TopLayer& top, const float* gradients);

  /// Moves the kept gradients of the nodes that `top` pushes to `gradients`,
  /// [top.pushed.size(), width]; 0 where there is none. REQUIRES:
  /// keeps_gradients().
  void TakeGradients(const sample::TopLayer& top, float* gradients);

  /// Forgets all embeddings, but not the gradients, at the beginning of an
  /// epoch.
  void Clear();

  /// Embeddings that batch `next` could still pull, by slot.
  std::vector<sample::LiveHistory> Live(int64_t next, int64_t staleness) const;

  /// Tensors for a checkpoint: the embeddings `live` ("slots", "batches",
  /// "rows"), and all gradients, if there are any ("gradient_slots",
  /// "gradients"). Empty without either.
  store::TensorMap Save(absl::Span<const sample::LiveHistory> live) const;

  /// Replaces the contents by tensors that Save gave. DATA_LOSS if they do not
  /// fit.
  absl::Status Load(const store::TensorMap& saved);

  /// Bytes of a candidate's embedding, and of its gradient if the cache keeps
  /// gradients.
  static int64_t RowBytes(int64_t width, bool keeps_gradients) {
    return width * static_cast<int64_t>(sizeof(float)) *
           (keeps_gradients ? 2 : 1);
  }

  /// Memory for `num_candidates` candidates, the tensors of Save included.
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
  // Rows, then gradients, by slot.
  float* const rows_;
  // Number of the batch that pushed each slot last; kNever if none did.
  std::vector<int64_t> pushed_by_;
  // Whether each slot has a gradient; empty if none are kept.
  std::vector<bool> has_gradient_;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_HISTORY_CACHE_H_
