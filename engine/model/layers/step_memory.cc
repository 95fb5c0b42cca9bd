#include "engine/model/layers/step_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "engine/model/layers/model_kind.h"
#include "engine/model/operators/graph_functions.h"
#include "engine/model/operators/matrix_product.h"

namespace hearth::model {

namespace {

// Positions, weights and the transposed adjacency.
constexpr uint64_t kEdgeBytes = 24;
constexpr uint64_t kNodeBytes = 32;

// Edges of a block and a self loop at each destination.
uint64_t EdgesWithLoops(const BlockSize& block) {
  return block.edges + block.destinations;
}

// Whether blocks of at most the size of `block`, with edges in about that
// proportion to their sources, may be summed first, or multiplied first.
struct Orders {
  bool sums_first = false;
  bool products_first = false;
};

Orders OrdersOf(const LayerPlace& place, const BlockSize& block) {
  Orders orders;
  for (const double proportion : {0.75, 1.0, 1.5}) {
    const bool sums_first =
        SumsFirst({.sources = static_cast<int64_t>(block.sources),
                   .destinations = static_cast<int64_t>(block.destinations),
                   .edges = static_cast<int64_t>(
                       proportion * static_cast<double>(block.edges)),
                   .in = place.in,
                   .out = place.out,
                   .needs_input_gradient = !place.first});
    (sums_first ? orders.sums_first : orders.products_first) = true;
  }
  return orders;
}

}  // namespace

Bytes GradientBytes(Bytes bytes, uint64_t rows) {
  return bytes *
         static_cast<uint64_t>(1 + NumPartialSums(static_cast<int64_t>(rows)));
}

Bytes EdgesBytes(const BlockSize& block) {
  return Bytes{kEdgeBytes} * EdgesWithLoops(block) +
         Bytes{kNodeBytes} * block.sources;
}

Bytes EdgeScoreBytes(int64_t heads, const BlockSize& block) {
  return MatrixBytes(EdgesWithLoops(block), heads);
}

// With S sources, D destinations, I input columns and O output columns: sums,
// [D, I], stay until their part of the weight's gradient is made; sums of
// products, [D, O], are made from products, [S, O], and lead back to them. The
// gradient by the output exists twice where it must pass an activation; the
// gradient by the input is [S, I], and [D, I] before it is spread over the
// sources.
LayerMemory PropagationMemory(const LayerPlace& place, const BlockSize& block,
                              Bytes parameters) {
  const Bytes output = MatrixBytes(block.destinations, place.out);
  const Bytes sums = MatrixBytes(block.destinations, place.in);
  const Bytes products = MatrixBytes(block.sources, place.out);
  const Bytes input_gradient =
      place.first ? 0 : MatrixBytes(block.sources, place.in);
  LayerMemory memory = {.parameters = parameters, .edges = EdgesBytes(block)};
  const Orders orders = OrdersOf(place, block);
  if (orders.sums_first) {
    memory.saved = sums / sizeof(float) * block.factor_bytes;
    memory.backward = output;
    if (!place.first) memory.backward += output + sums + input_gradient;
    memory.backward += GradientBytes(parameters, block.destinations);
  }
  if (orders.products_first) {
    memory.forward = products + output;
    memory.backward =
        std::max(memory.backward, 2 * output + products + input_gradient +
                                      GradientBytes(parameters, block.sources));
  }
  memory.forward += ProductBytes(parameters);
  memory.saved += output;
  return memory;
}

std::optional<Bytes> PropagationInPlace(const LayerPlace& place,
                                        const BlockSize& block, bool own_rows) {
  if (OrdersOf(place, block).products_first) return std::nullopt;
  return own_rows ? MatrixBytes(block.destinations, place.in) : Bytes{0};
}

namespace {

// LibTorch, oneDNN and their threads: several times the memory that they were
// seen to take.
constexpr uint64_t kRuntimeBytes = uint64_t{24} << 20;
// cuBLAS's workspaces, and the blocks that LibTorch's allocator of device
// memory rounds up to: a guess, not yet measured on a GPU.
constexpr uint64_t kDeviceRuntimeBytes = uint64_t{192} << 20;
// Copies of batches on the device: one for each step that has begun, and one
// for the step that begins.
constexpr uint64_t kDeviceCopies = kMostPendingSteps + 1;
// Copies in pinned memory, whose blocks LibTorch rounds up to powers of two.
constexpr uint64_t kPinnedCopies = 2 * kDeviceCopies;
// LibTorch's part for GPUs and the driver: a guess, too.
constexpr uint64_t kDeviceHostBytes = uint64_t{512} << 20;

// Arrays of an optimizer that are as large as the parameters.
struct CountMoments {
  uint64_t operator()(const train::AdamOptions&) const { return 2; }
  uint64_t operator()(const train::AdamWOptions&) const { return 2; }
  uint64_t operator()(const train::SgdOptions& sgd) const {
    return sgd.momentum != 0 ? 1 : 0;
  }
};

uint64_t NumMoments(const train::TrainOptions& options) {
  return std::visit(CountMoments(), options.optimizer);
}

// LibTorch's arrays that are as large as the parameters: these, gradients,
// gradients as they are clipped, gradients of all trainers, and moments.
uint64_t NumCopies(const train::TrainOptions& options,
                   const train::ModelShape& shape) {
  return 2 + (options.clip_norm > 0 ? 1 : 0) + (shape.trainers > 1 ? 1 : 0) +
         NumMoments(options);
}

// Others, between two steps: values and moments as they are saved; where the
// best epoch's are kept, these, and these as they are written.
uint64_t NumSavedCopies(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  return (shape.keeps_best ? 3 : 1) * (1 + NumMoments(options));
}

// Those of them that are there in a step: the best epoch's.
uint64_t NumBestCopies(const train::TrainOptions& options,
                       const train::ModelShape& shape) {
  return shape.keeps_best ? 1 + NumMoments(options) : 0;
}

// Bytes of an element of rows that are made for products alone.
uint64_t FactorBytes(train::Precision precision) {
  return ResolvedPrecision(precision) == train::Precision::kBfloat16
             ? sizeof(uint16_t)
             : sizeof(float);
}

// Bytes that the pool takes for buffers of `bytes`: it may have an eighth more
// than is in use at once (buffer_pool.h).
Bytes PooledBytes(Bytes bytes) { return bytes + bytes / 8; }

uint64_t AtMost(Bytes bytes) {
  return static_cast<uint64_t>(std::min(bytes, Bytes{kMostMemoryBytes}));
}

// The parts of a step's memory, in bytes.
struct StepBytes {
  // One copy of the parameters.
  Bytes parameters = 0;
  // The lists of edges.
  Bytes edges = 0;
  // The buffers, when they are most.
  Bytes most = 0;
};

std::optional<RelationRowCounts> RowCounts(const sample::BatchShape& batch,
                                           size_t layer) {
  if (batch.relations.empty()) return std::nullopt;
  const sample::RelationEnds& ends = batch.relations[layer];
  return RelationRowCounts{
      .sources = static_cast<uint64_t>(ends.sources),
      .destinations = static_cast<uint64_t>(ends.destinations),
      .larger_ends = static_cast<uint64_t>(ends.larger_ends),
      .most_sources = static_cast<uint64_t>(ends.most_sources),
      .most_destinations = static_cast<uint64_t>(ends.most_destinations)};
}

StepBytes CountBytes(const train::TrainOptions& options,
                     const train::ModelShape& shape,
                     const sample::BatchShape& batch) {
  const auto kind = NewModelKind(options.model, shape);
  const LayerMemory ends =
      kind->EndsMemory(static_cast<uint64_t>(batch.nodes.front()),
                       static_cast<uint64_t>(batch.nodes.back()));
  Bytes parameters = ends.parameters;
  Bytes edges = ends.edges;
  Bytes saved = ends.saved;
  // Layers go forward one after another, and backward from the last: then what
  // those behind them saved is gone.
  Bytes most = saved + std::max(ends.forward, ends.backward);
  const std::vector<LayerPlace> places = LayerPlaces(*kind, shape);
  for (size_t i = 0; i < places.size(); ++i) {
    const LayerMemory layer = kind->Memory(
        places[i], {.sources = static_cast<uint64_t>(batch.nodes[i]),
                    .destinations = static_cast<uint64_t>(batch.nodes[i + 1]),
                    .edges = static_cast<uint64_t>(batch.edges[i]),
                    .factor_bytes = FactorBytes(options.precision),
                    .relations = RowCounts(batch, i)});
    parameters += layer.parameters;
    edges += layer.edges;
    saved += layer.saved;
    most = std::max(most, saved + std::max(layer.forward, layer.backward));
  }
  return {.parameters = parameters, .edges = edges, .most = most};
}

// Parameters, the optimizer's state and what is copied of them between two
// steps, when a step's memory is given up (ReleaseStepMemory).
Bytes KeptBytes(const train::TrainOptions& options,
                const train::ModelShape& shape, Bytes parameters) {
  return PooledBytes(NumCopies(options, shape) * parameters) +
         NumSavedCopies(options, shape) * parameters;
}

Bytes CountParameters(const train::TrainOptions& options,
                      const train::ModelShape& shape) {
  const auto kind = NewModelKind(options.model, shape);
  Bytes parameters = kind->EndsMemory(0, 0).parameters;
  for (const LayerPlace& place : LayerPlaces(*kind, shape)) {
    // They do not depend on the batch.
    parameters += kind->Memory(place, BlockSize()).parameters;
  }
  return parameters;
}

}  // namespace

uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch) {
  const auto [parameters, edges, most] = CountBytes(options, shape, batch);
  const Bytes step =
      edges + PooledBytes(NumCopies(options, shape) * parameters + most) +
      NumBestCopies(options, shape) * parameters;
  return AtMost(kRuntimeBytes +
                std::max(step, KeptBytes(options, shape, parameters)));
}

uint64_t StepTensorBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch) {
  return AtMost(CountBytes(options, shape, batch).most);
}

std::optional<uint64_t> StepBytesInPlace(const train::TrainOptions& options,
                                         const train::ModelShape& shape,
                                         const sample::BatchShape& batch) {
  const auto kind = NewModelKind(options.model, shape);
  const std::optional<Bytes> bytes =
      kind->BytesInPlace(LayerPlaces(*kind, shape).front(),
                         {.sources = static_cast<uint64_t>(batch.nodes[0]),
                          .destinations = static_cast<uint64_t>(batch.nodes[1]),
                          .edges = static_cast<uint64_t>(batch.edges[0])});
  if (!bytes.has_value()) return std::nullopt;
  return AtMost(PooledBytes(*bytes));
}

DeviceStepMemory DeviceStepBytes(const train::TrainOptions& options,
                                 const train::ModelShape& shape,
                                 const sample::BatchShape& batch) {
  const auto [parameters, edges, most] = CountBytes(options, shape, batch);
  const auto seeds = static_cast<uint64_t>(batch.nodes.back());
  const Bytes inputs = MatrixBytes(static_cast<uint64_t>(batch.nodes.front()),
                                   shape.feature_dim);
  // Scores and labels, which are in both places.
  const Bytes ends = 2 * Bytes{seeds} *
                     static_cast<uint64_t>(shape.label_width) * sizeof(double);
  return {.device_bytes =
              AtMost(kDeviceRuntimeBytes +
                     PooledBytes(NumCopies(options, shape) * parameters + most +
                                 kDeviceCopies * (inputs + edges + ends))),
          .host_bytes = AtMost(kDeviceHostBytes + edges + ends +
                               kPinnedCopies * (inputs + edges + ends) +
                               NumSavedCopies(options, shape) * parameters)};
}

uint64_t KeptMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape) {
  return AtMost(KeptBytes(options, shape, CountParameters(options, shape)));
}

uint64_t ParameterBytes(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  return AtMost(CountParameters(options, shape));
}

}  // namespace hearth::model
