#include "engine/sample/saved_io.h"

#include <algorithm>
#include <iterator>

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr int64_t kPageBytes = 4096;

int64_t PagesOf(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

SavedIo::SavedIo(const Options& options) : index_bytes_(options.index_bytes) {
  const auto nodes = static_cast<size_t>(options.num_nodes);
  profile_.row_pages = PagesOf(options.row_bytes);
  profile_.features.resize(nodes);
  profile_.sampled.resize(nodes);
  profile_.gathered.resize(nodes);
}

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

void SavedIo::Add(const MiniBatch& batch,
                  absl::FunctionRef<bool(NodeId)> list_is_resident) {
  for (const NodeId node : batch.input_nodes) ++profile_.features[node];
  profile_.num_seeds += batch.num_seeds;
  profile_.num_rows += std::ssize(batch.input_nodes);

  // Neighbors that are drawn for one list are read from so many pages at most.
  for (const Block& block : batch.blocks) {
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      if (list_is_resident(batch.input_nodes[row])) continue;
      const int64_t drawn = block.indptr[row + 1] - block.indptr[row];
      profile_.num_drawn += drawn;
      profile_.drawn_pages +=
          std::min(drawn, PagesOf(batch.in_degrees[row] * index_bytes_));
    }
  }
  AddTrees(
      batch,
      [&](size_t /*layer*/, int64_t row, int64_t /*edge*/) {
        return !list_is_resident(batch.input_nodes[row]);
      },
      profile_.sampled);

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
      profile_.gathered);
}

}  // namespace hearth::sample
