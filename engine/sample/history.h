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

/// Which embeddings of a batch are those of earlier batches: the historical
/// embedding cache of OUTRE (section 4.3), without the embeddings. Decisions
/// depend on the batches alone, never on values, so that batches can be sampled
/// far ahead of the training.

namespace hearth::sample {

/// The nodes whose embeddings of the next-to-last layer may be kept. Immutable,
/// thread-safe.
class HistoryCandidates {
 public:
  /// The slot of a node that is no candidate.
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
  // By node.
  std::vector<int32_t> slots_;
};

/// An embedding that is kept: its slot, and the batch that pushed it.
struct LiveHistory {
  int32_t slot = 0;
  int64_t batch = 0;

  bool operator==(const LiveHistory&) const = default;
};

/// The rules of a pass.
struct HistoryPolicy {
  std::shared_ptr<const HistoryCandidates> candidates;
  /// Embeddings are pulled while they are younger than this number of batches;
  /// 1 = never.
  int64_t staleness = 1;
  /// The embeddings that are there when the pass begins, in the middle of an
  /// epoch; none at its beginning.
  std::vector<LiveHistory> live = {};
};

/// Decides for the batches of one pass, shard by shard in order. Single-owner.
class HistoryDecisions {
 public:
  /// `policy` outlives it.
  explicit HistoryDecisions(const HistoryPolicy& policy);

  /// Fills in what is computed, pulled and pushed of the top layer of a shard
  /// of batch number `batch`. A candidate that was pushed less than `staleness`
  /// batches ago, by an earlier batch, is pulled; any other is computed, and
  /// pushed by the first shard of its batch.
  void Decide(int64_t batch, TopLayer& top);

  /// Memory of the decisions over so many candidates.
  static uint64_t MemoryBytes(int64_t num_candidates);

 private:
  const HistoryPolicy& policy_;
  // By slot: the batch that pushed last; kNever.
  std::vector<int64_t> pushed_by_;
};

/// The nodes of `top` that the blocks below compute, in their order.
std::vector<store::NodeId> ComputedNodes(const TopLayer& top);

/// INVALID_ARGUMENT unless the positions of `top` are as TopLayer says, and
/// those computed and those pulled are all.
absl::Status CheckTopLayer(const TopLayer& top);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_HISTORY_H_
