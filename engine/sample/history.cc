#include "engine/sample/history.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "engine/base/sha256.h"

namespace hearth::sample {
namespace {

// Stands for no batch.
constexpr int64_t kNever = INT64_MIN;

std::string DigestOf(absl::Span<const store::NodeId> nodes) {
  Sha256 hash;
  hash.Update({reinterpret_cast<const std::byte*>(nodes.data()),
               nodes.size() * sizeof(store::NodeId)});
  return hash.HexDigest();
}

bool Ascends(const std::vector<int32_t>& positions, size_t end) {
  return std::is_sorted(positions.begin(), positions.end()) &&
         std::adjacent_find(positions.begin(), positions.end()) ==
             positions.end() &&
         (positions.empty() || (positions.front() >= 0 &&
                                static_cast<size_t>(positions.back()) < end));
}

}  // namespace

HistoryCandidates::HistoryCandidates(absl::Span<const store::NodeId> nodes,
                                     int64_t num_nodes)
    : size_(std::ssize(nodes)),
      digest_(DigestOf(nodes)),
      slots_(static_cast<size_t>(num_nodes), kNone) {
  int32_t slot = 0;
  for (const store::NodeId node : nodes) slots_[node] = slot++;
}

uint64_t HistoryCandidates::MemoryBytes(int64_t num_nodes) {
  return static_cast<uint64_t>(num_nodes) * sizeof(int32_t);
}

HistoryDecisions::HistoryDecisions(const HistoryPolicy& policy)
    : policy_(policy),
      pushed_by_(static_cast<size_t>(policy.candidates->size()), kNever) {
  for (const LiveHistory& live : policy.live) {
    pushed_by_[live.slot] = live.batch;
  }
}

void HistoryDecisions::Decide(int64_t batch, TopLayer& top) {
  top.computed.clear();
  top.pulled.clear();
  top.pushed.clear();
  top.sum_of_ages = 0;
  for (size_t i = 0; i < top.nodes.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    const int32_t slot = policy_.candidates->SlotOf(top.nodes[i]);
    int64_t* const pushed_by =
        slot == HistoryCandidates::kNone ? nullptr : &pushed_by_[slot];
    const bool fresh = pushed_by != nullptr && *pushed_by != kNever &&
                       batch - *pushed_by < policy_.staleness;
    if (fresh && *pushed_by < batch) {
      top.pulled.push_back(position);
      top.sum_of_ages += batch - *pushed_by;
      continue;
    }
    top.computed.push_back(position);
    // Another shard of this batch pushes it, or it is no candidate.
    if (pushed_by == nullptr || *pushed_by == batch) continue;
    *pushed_by = batch;
    top.pushed.push_back(position);
  }
}

uint64_t HistoryDecisions::MemoryBytes(int64_t num_candidates) {
  return static_cast<uint64_t>(num_candidates) * sizeof(int64_t);
}

std::vector<store::NodeId> ComputedNodes(const TopLayer& top) {
  std::vector<store::NodeId> nodes;
  nodes.reserve(top.computed.size());
  for (const int32_t position : top.computed) {
    nodes.push_back(top.nodes[position]);
  }
  return nodes;
}

absl::Status CheckTopLayer(const TopLayer& top) {
  const size_t nodes = top.nodes.size();
  std::vector<int32_t> all;
  std::merge(top.computed.begin(), top.computed.end(), top.pulled.begin(),
             top.pulled.end(), std::back_inserter(all));
  if (top.in_degrees.size() == nodes && all.size() == nodes &&
      Ascends(all, nodes) && Ascends(top.pushed, nodes) &&
      std::includes(top.computed.begin(), top.computed.end(),
                    top.pushed.begin(), top.pushed.end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "the batch's top layer does not tell of each node how it is had");
}

}  // namespace hearth::sample
