#include "engine/model/step_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/layer_memory.h"
#include "engine/model/matrix_product.h"
#include "engine/model/model_kind.h"
#include "engine/model/model_kinds.h"

namespace hearth::model {
namespace {

// LibTorch, oneDNN and their threads: several times what they were seen to
// take.
constexpr uint64_t kRuntimeBytes = uint64_t{24} << 20;
// Bytes of the parameters: values, gradients, two moments.
constexpr uint64_t kParameterCopies = 4;
// Besides, in tensors that are not LibTorch's: values and moments as they are
// saved, as the best epoch's, and the latter as they are written.
constexpr uint64_t kSavedCopies = 9;
// On a device: values, gradients, two moments, and gradients as they are
// clipped.
constexpr uint64_t kDeviceParameterCopies = 5;
// cuBLAS's workspaces, and the blocks that LibTorch's allocator of device
// memory rounds up to: a guess, not yet measured on a GPU.
constexpr uint64_t kDeviceRuntimeBytes = uint64_t{192} << 20;
// Copies of batches on the device: those of all steps that have begun, and of
// the one that begins.
constexpr uint64_t kDeviceCopies = kMostPendingSteps + 1;
// Pinned memory for them: LibTorch rounds its blocks up to powers of two.
constexpr uint64_t kPinnedCopies = 2 * kDeviceCopies;
// LibTorch's part for GPUs, and the driver's: a guess, too.
constexpr uint64_t kDeviceHostBytes = uint64_t{512} << 20;

// Bytes of an element of rows that are made for products alone.
uint64_t FactorBytes(train::Precision precision) {
  return ResolvedPrecision(precision) == train::Precision::kBfloat16
             ? sizeof(uint16_t)
             : sizeof(float);
}

// Bytes that the pool takes for buffers of `bytes`: it may have a quarter more
// than is in use at once (buffer_pool.h).
uint64_t PooledBytes(uint64_t bytes) { return bytes + bytes / 4; }

// The parts of a step's memory, in bytes.
struct StepBytes {
  // One copy of the parameters.
  uint64_t parameters = 0;
  // The lists of edges.
  uint64_t edges = 0;
  // The buffers, when they are most.
  uint64_t most = 0;
};

StepBytes CountBytes(const train::TrainOptions& options,
                     const train::ModelShape& shape,
                     const sample::BatchShape& batch) {
  const auto kind = NewModelKind(options.model, shape);
  const LayerMemory ends =
      kind->EndsMemory(static_cast<uint64_t>(batch.nodes.front()),
                       static_cast<uint64_t>(batch.nodes.back()));
  uint64_t parameters = ends.parameters;
  uint64_t edges = ends.edges;
  uint64_t saved = ends.saved;
  // Layers go forward one after another, and backward from the last: then what
  // those behind them saved is gone.
  uint64_t most = ends.forward + ends.backward;
  const std::vector<LayerPlace> places = LayerPlaces(*kind, shape);
  for (size_t i = 0; i < places.size(); ++i) {
    const LayerMemory layer = kind->Memory(
        places[i], {.sources = static_cast<uint64_t>(batch.nodes[i]),
                    .destinations = static_cast<uint64_t>(batch.nodes[i + 1]),
                    .edges = static_cast<uint64_t>(batch.edges[i]),
                    .factor_bytes = FactorBytes(options.precision)});
    parameters += layer.parameters;
    edges += layer.edges;
    saved += layer.saved;
    most = std::max(most, saved + std::max(layer.forward, layer.backward));
  }
  return {.parameters = parameters, .edges = edges, .most = most};
}

}  // namespace

uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch) {
  const auto [parameters, edges, most] = CountBytes(options, shape, batch);
  return kRuntimeBytes + edges +
         PooledBytes(kParameterCopies * parameters + most) +
         kSavedCopies * parameters;
}

DeviceStepMemory DeviceStepBytes(const train::TrainOptions& options,
                                 const train::ModelShape& shape,
                                 const sample::BatchShape& batch) {
  const auto [parameters, edges, most] = CountBytes(options, shape, batch);
  const auto seeds = static_cast<uint64_t>(batch.nodes.back());
  const uint64_t inputs = static_cast<uint64_t>(batch.nodes.front()) *
                          static_cast<uint64_t>(shape.feature_dim) *
                          sizeof(float);
  // Scores and labels, which are in both places.
  const uint64_t ends =
      2 * seeds * static_cast<uint64_t>(shape.label_width) * sizeof(double);
  return {
      .device_bytes = kDeviceRuntimeBytes +
                      PooledBytes(kDeviceParameterCopies * parameters + most +
                                  kDeviceCopies * (inputs + edges + ends)),
      .host_bytes = kDeviceHostBytes + edges + ends +
                    kPinnedCopies * (inputs + edges + ends) +
                    kSavedCopies * parameters};
}

uint64_t KeptMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape) {
  const auto kind = NewModelKind(options.model, shape);
  uint64_t parameters = kind->EndsMemory(0, 0).parameters;
  for (const LayerPlace& place : LayerPlaces(*kind, shape)) {
    // Those do not depend on the batch.
    parameters += kind->Memory(place, BlockSize()).parameters;
  }
  return PooledBytes(kParameterCopies * parameters) + kSavedCopies * parameters;
}

}  // namespace hearth::model
