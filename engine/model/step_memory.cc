#include "engine/model/step_memory.h"

#include <cstddef>
#include <vector>

#include "engine/model/layer_memory.h"
#include "engine/model/model_kind.h"
#include "engine/model/model_kinds.h"

namespace hearth::model {
namespace {

// LibTorch, oneDNN and their threads.
constexpr uint64_t kRuntimeBytes = uint64_t{64} << 20;
// Bytes of the parameters: values, gradients, two moments; the same state as it
// is saved, as it is written, and as the best epoch's.
constexpr uint64_t kParameterCopies = 16;

}  // namespace

uint64_t StepMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape,
                         const sample::BatchShape& batch) {
  const auto kind = NewModelKind(options.model, shape);
  const std::vector<LayerPlace> places = LayerPlaces(*kind, shape);
  LayerMemory sum = kind->EndsMemory(static_cast<uint64_t>(batch.nodes.front()),
                                     static_cast<uint64_t>(batch.nodes.back()));
  for (size_t i = 0; i < places.size(); ++i) {
    const BlockSize block = {
        .sources = static_cast<uint64_t>(batch.nodes[i]),
        .destinations = static_cast<uint64_t>(batch.nodes[i + 1]),
        .edges = static_cast<uint64_t>(batch.edges[i])};
    sum = sum + kind->Memory(places[i], block);
  }
  // Batches differ in size: buffers of the last few steps that fit none of the
  // next are kept for a while (buffer_pool.h).
  return kRuntimeBytes + kParameterCopies * sum.parameters + sum.tensors +
         sum.tensors / 2;
}

uint64_t KeptMemoryBytes(const train::TrainOptions& options,
                         const train::ModelShape& shape) {
  const auto kind = NewModelKind(options.model, shape);
  uint64_t parameters = kind->EndsMemory(0, 0).parameters;
  for (const LayerPlace& place : LayerPlaces(*kind, shape)) {
    // Those do not depend on the batch.
    parameters += kind->Memory(place, BlockSize()).parameters;
  }
  return kParameterCopies * parameters;
}

}  // namespace hearth::model
