#include "engine/sample/saved_io.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr int64_t kPageBytes = 4096;

int64_t PagesOf(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

SavedIo::SavedIo(Options options)
    : options_(std::move(options)),
      features_(static_cast<size_t>(options_.num_nodes)),
      sampled_(static_cast<size_t>(options_.num_nodes)),
      gathered_(static_cast<size_t>(options_.num_nodes)) {}

// The trees below the sources of the last block, from their leaves up: a node
// of weight w stands for w nodes, itself included, and a source of the last
// block gets the weight of its edges alone.
template <typename Counts>
void SavedIo::AddTrees(const MiniBatch& batch, const Counts& counts,
                       std::vector<float>& totals) {
  const size_t top = batch.blocks.size() - 2;
  below_.assign(batch.input_nodes.size(), 1);
  for (size_t layer = 0; layer <= top; ++layer) {
    const Block& block = batch.blocks[layer];
    weights_.assign(static_cast<size_t>(block.num_destinations),
                    layer < top ? 1 : 0);
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
           ++edge) {
        if (counts(layer, row, edge)) {
          weights_[row] += below_[block.indices[edge]];
        }
      }
    }
    below_.swap(weights_);
  }
  for (size_t row = 0; row < below_.size(); ++row) {
    totals[batch.input_nodes[row]] += below_[row];
  }
}

void SavedIo::Add(const MiniBatch& batch) {
  for (const NodeId node : batch.input_nodes) ++features_[node];
  num_rows_ += std::ssize(batch.input_nodes);

  // What is drawn for one list is read from so many pages at most.
  for (const Block& block : batch.blocks) {
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      if (options_.list_is_cached(batch.input_nodes[row])) continue;
      const int64_t drawn = block.indptr[row + 1] - block.indptr[row];
      num_drawn_ += drawn;
      pages_drawn_from_ += std::min(
          drawn, PagesOf(batch.in_degrees[row] * options_.index_bytes));
    }
  }
  AddTrees(
      batch,
      [&](size_t /*layer*/, int64_t row, int64_t /*edge*/) {
        return !options_.list_is_cached(batch.input_nodes[row]);
      },
      sampled_);

  // The edge that came first introduced its source, unless that was there.
  size_t layer_of = batch.blocks.size();
  AddTrees(
      batch,
      [&](size_t layer, int64_t /*row*/, int64_t edge) {
        const Block& block = batch.blocks[layer];
        const int32_t source = block.indices[edge];
        if (layer != layer_of) {
          introduced_.assign(batch.input_nodes.size(), false);
          layer_of = layer;
        }
        if (source < block.num_destinations || introduced_[source]) {
          return false;
        }
        introduced_[source] = true;
        return true;
      },
      gathered_);
}

double SavedIo::beta() const {
  const int64_t pages_of_row = PagesOf(options_.row_bytes);
  if (num_drawn_ == 0 || pages_of_row == 0) return 1;
  return static_cast<double>(pages_drawn_from_) /
         static_cast<double>(num_drawn_) / static_cast<double>(pages_of_row);
}

std::vector<NodeId> SavedIo::BestHistories(int64_t count) const {
  const double weight = beta();
  const auto saved = [&](NodeId node) {
    return weight * double{sampled_[node]} + double{gathered_[node]};
  };
  std::vector<NodeId> nodes(static_cast<size_t>(options_.num_nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  const auto middle =
      nodes.begin() + std::clamp<int64_t>(count, 0, std::ssize(nodes));
  std::partial_sort(nodes.begin(), middle, nodes.end(),
                    [&](NodeId a, NodeId b) {
                      const double of_a = saved(a);
                      const double of_b = saved(b);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  nodes.erase(middle, nodes.end());
  return nodes;
}

uint64_t SavedIo::MemoryBytes(int64_t num_nodes) {
  return static_cast<uint64_t>(num_nodes) *
         (3 * sizeof(float) + sizeof(NodeId));
}

}  // namespace hearth::sample
