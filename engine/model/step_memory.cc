#include "engine/model/step_memory.h"

#include <cstddef>
#include <variant>
#include <vector>

// The tensors of one layer, with S sources, D destinations, I input columns and
// O output columns (of all heads, for attention):
//
//   S x I   gradient of the layer's input (none for the first layer)
//   S x O   products of the sources, where they come before the sum, and their
//           gradient
//   D x I   sums of the inputs, where they come first, and their gradient
//   D x O   output, before and after ReLU and dropout, and their gradients
//
// with attention besides, for each edge and head, scores, weights and their
// gradients. All are counted as if they lived at once, in float32.

namespace hearth::model {
namespace {

constexpr uint64_t kFloat = sizeof(float);
// LibTorch, oneDNN and their threads.
constexpr uint64_t kRuntimeBytes = uint64_t{64} << 20;
// Of the parameters: values, gradients, two moments; the same state as it is
// saved, as it is written, and as the best epoch's.
constexpr uint64_t kParameterCopies = 16;
// Positions, weights and the transposed adjacency.
constexpr uint64_t kEdgeBytes = 24;
constexpr uint64_t kNodeBytes = 32;
constexpr uint64_t kAttentionArrays = 6;

struct Layer {
  uint64_t in = 0;
  uint64_t out = 0;
  uint64_t heads = 0;
};

struct MakeLayer {
  Layer operator()(const train::SageOptions& sage) const {
    return {in, last ? label_width : static_cast<uint64_t>(sage.hidden), 0};
  }
  Layer operator()(const train::GcnOptions& gcn) const {
    return {in, last ? label_width : static_cast<uint64_t>(gcn.hidden), 0};
  }
  Layer operator()(const train::GatOptions& gat) const {
    const auto heads = static_cast<uint64_t>(gat.heads);
    return {in, last ? heads * label_width : static_cast<uint64_t>(gat.hidden),
            heads};
  }
  Layer operator()(const train::NoModelOptions&) const { return {}; }

  uint64_t in;
  uint64_t label_width;
  bool last;
};

std::vector<Layer> LayersOf(const train::TrainOptions& options,
                            const train::ModelShape& shape) {
  std::vector<Layer> layers;
  auto in = static_cast<uint64_t>(shape.feature_dim);
  for (int64_t i = 0; i < shape.num_layers; ++i) {
    layers.push_back(
        std::visit(MakeLayer{in, static_cast<uint64_t>(shape.label_width),
                             i == shape.num_layers - 1},
                   options.model));
    in = layers.back().out;
  }
  return layers;
}

}  // namespace

uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch) {
  const std::vector<Layer> layers = LayersOf(options, shape);
  uint64_t parameters = 0;
  uint64_t tensors = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [in, out, heads] = layers[i];
    const auto sources = static_cast<uint64_t>(batch.nodes[i]);
    const auto destinations = static_cast<uint64_t>(batch.nodes[i + 1]);
    // Attention adds a loop to each destination.
    const uint64_t edges = static_cast<uint64_t>(batch.edges[i]) + destinations;
    // Two matrices, and vectors of the output's width.
    parameters += kFloat * (2 * in * out + 4 * out);
    tensors += kFloat * ((i > 0 ? sources * in : 0) + 2 * sources * out +
                         2 * destinations * in + 4 * destinations * out) +
               kEdgeBytes * edges + kNodeBytes * sources +
               kFloat * heads * (kAttentionArrays * edges + 4 * sources);
  }
  // Batches differ in size: buffers of the last few steps that fit none of the
  // next are kept for a while (buffer_pool.h).
  return kRuntimeBytes + kParameterCopies * parameters + tensors + tensors / 2;
}

}  // namespace hearth::model
