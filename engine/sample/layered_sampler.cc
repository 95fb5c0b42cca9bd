#include "engine/sample/layered_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/base/status_macros.h"

namespace hearth::sample {
namespace {

using store::NodeId;

// How far ahead of its use something is asked for.
constexpr size_t kNodesAhead = 16;

// A block for destinations of these in-degrees, with room for its edges.
Block WithoutSources(int32_t fanout, const std::vector<int64_t>& in_degrees) {
  Block block;
  block.num_destinations = static_cast<int64_t>(in_degrees.size());
  block.indptr.reserve(in_degrees.size() + 1);
  block.indptr.push_back(0);
  for (const int64_t degree : in_degrees) {
    const int64_t kept =
        fanout < 0 ? degree : std::min<int64_t>(degree, fanout);
    block.indptr.push_back(block.indptr.back() + kept);
  }
  block.indices.resize(block.indptr.back());
  return block;
}

}  // namespace

LayeredSampler::LayeredSampler(absl::Span<const int64_t> indptr,
                               NeighborSamplerOptions options)
    : indptr_(indptr), options_(std::move(options)) {}

absl::StatusOr<MiniBatch> LayeredSampler::Sample(
    const BatchKey& key, absl::Span<const NodeId> seeds) {
  MiniBatch batch;
  batch.key = key;
  batch.num_seeds = static_cast<int64_t>(seeds.size());
  positions_.Clear();
  row_starts_.clear();
  for (const NodeId seed : seeds) Number(seed, batch.input_nodes);
  HEARTH_RETURN_IF_ERROR(LookUpNewNodes(batch));
  for (size_t layer = 0; layer < options_.fanouts.size(); ++layer) {
    Block block = WithoutSources(options_.fanouts[layer], batch.in_degrees);
    HEARTH_RETURN_IF_ERROR(SampleSources(layer, batch, block));
    block.num_sources = static_cast<int64_t>(batch.input_nodes.size());
    batch.blocks.push_back(std::move(block));
    HEARTH_RETURN_IF_ERROR(LookUpNewNodes(batch));
  }
  std::reverse(batch.blocks.begin(), batch.blocks.end());
  return batch;
}

absl::Span<const int64_t> LayeredSampler::DrawSubset(size_t layer,
                                                     const MiniBatch& batch,
                                                     int64_t row) {
  // Node ids are below 2^48, so that layer and node share a coordinate.
  RandomStream random(options_.data_seed, RandomPurpose::kNeighborSampling,
                      batch.key.epoch_key, batch.key.batch,
                      static_cast<uint64_t>(layer) << 48 |
                          static_cast<uint64_t>(batch.input_nodes[row]));
  return subset_.Draw(batch.in_degrees[row], options_.fanouts[layer], random);
}

// Extends the in-degrees and row_starts_ to all input nodes.
absl::Status LayeredSampler::LookUpNewNodes(MiniBatch& batch) {
  const std::vector<NodeId>& nodes = batch.input_nodes;
  const auto num_nodes = static_cast<uint64_t>(indptr_.size() - 1);
  const int64_t num_edges = indptr_.back();
  for (size_t i = batch.in_degrees.size(); i < nodes.size(); ++i) {
    if (static_cast<uint64_t>(nodes[i]) >= num_nodes) {
      return absl::DataLossError(absl::StrCat("the topology names node ",
                                              nodes[i],
                                              ", which is not "
                                              "one of its ",
                                              num_nodes));
    }
    if (i + kNodesAhead < nodes.size()) {
      __builtin_prefetch(indptr_.data() + nodes[i + kNodesAhead]);
    }
    const int64_t start = indptr_[nodes[i]];
    const int64_t end = indptr_[nodes[i] + 1];
    if (start < 0 || end < start || end > num_edges) {
      return absl::DataLossError(absl::StrCat("the topology has edges ", start,
                                              " to ", end, " of node ",
                                              nodes[i], ", of ", num_edges));
    }
    row_starts_.push_back(start);
    batch.in_degrees.push_back(end - start);
  }
  return absl::OkStatus();
}

}  // namespace hearth::sample
