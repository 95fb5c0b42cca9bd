#ifndef HEARTH_ENGINE_SAMPLE_HISTORY_H_
#define HEARTH_ENGINE_SAMPLE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// Decides which embeddings of a batch are taken from earlier batches: the
/// historical embedding cache of OUTRE (section 4.3), without the embeddings
/// themselves (train::HistoryCache). Decisions depend on the batches alone,
/// never on values, so that batches can be sampled long before they are
/// trained.

namespace hearth::sample {

/// Nodes whose embeddings of the next-to-last layer may be kept. Immutable;
/// thread-safe.
class HistoryCandidates {
 public:
  /// Slot of a node that is no candidate.
  static constexpr int32_t kNone = -1;

  /// Candidate i has slot i. REQUIRES: distinct nodes of a graph of
  /// `num_nodes`.
  HistoryCandidates(absl::Span<const store::NodeId> nodes, int64_t num_nodes);

  int32_t SlotOf(store::NodeId node) const { return slots_[node]; }
  int64_t size() const { return size_; }
  int64_t num_nodes() const { return std::ssize(slots_); }
  /// SHA-256 of the nodes in their order, in hexadecimal.
  const std::string& digest() const { return digest_; }

  /// Memory of the candidates of a graph of `num_nodes`.
  static uint64_t MemoryBytes(int64_t num_nodes);

 private:
  const int64_t size_;
  const std::string digest_;
  // Slot of each node.
  std::vector<int32_t> slots_;
};

/// A kept embedding: its slot, and the number of the batch that pushed it.
struct LiveHistory {
  int32_t slot = 0;
  int64_t batch = 0;

  bool operator==(const LiveHistory&) const = default;
};

/// What one pass may pull from earlier batches.
struct HistoryPolicy {
  std::shared_ptr<const HistoryCandidates> candidates;
  /// Embeddings are pulled while fewer than this many batches old; 1 = never.
  int64_t staleness = 1;
  /// Embeddings that exist when the pass begins in the middle of an epoch; none
  /// at the epoch's beginning.
  std::vector<LiveHistory> live = {};
};

/// Decides for the batches of one pass, shard by shard in order. Single-owner.
class HistoryDecisions {
 public:
  /// `policy` must outlive the object.
  explicit HistoryDecisions(const HistoryPolicy& policy);

  /// Fills in `computed`, `pulled` and `pushed` of the top layer of a shard of
  /// batch number `batch`. A candidate that an earlier batch pushed less than
  /// `staleness` batches ago is pulled; any other is computed, and pushed by
  /// the first shard of its batch.
  void Decide(int64_t batch, TopLayer& top);

  /// Memory of the decisions over `num_candidates` candidates.
  static uint64_t MemoryBytes(int64_t num_candidates);

 private:
  const HistoryPolicy& policy_;
  // Number of the batch that pushed each slot last; kNever if none did.
  std::vector<int64_t> pushed_by_;
};

/// Nodes of `top` that the blocks below compute, in their order.
std::vector<store::NodeId> ComputedNodes(const TopLayer& top);

/// INVALID_ARGUMENT unless positions are as TopLayer describes and each node is
/// either computed or pulled.
absl::Status CheckTopLayer(const TopLayer& top);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_HISTORY_H_
