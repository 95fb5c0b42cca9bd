#ifndef HEARTH_TESTS_FUZZ_PICKLE_VISIT_H_
#define HEARTH_TESTS_FUZZ_PICKLE_VISIT_H_

#include <variant>
#include <vector>

#include "engine/ingest/parse/pickle_reader.h"
#include "engine/ingest/parse/pickle_value.h"

namespace hearth::ingest {

/// Limits that keep the time of one input short.
inline constexpr PickleLimits kFuzzLimits = {.max_bytes = 1 << 20,
                                             .max_values = 1 << 14,
                                             .max_opcodes = 1 << 15,
                                             .max_walk = 1 << 16,
                                             .max_depth = 16};

/// Adds the tensors below `value` to `tensors`. Walks as importers do, so that
/// it would find values that are too deep, too many or cyclic.
inline void CollectTensors(const PickleValue& value,
                           std::vector<const TorchTensor*>& tensors) {
  if (const auto* const tensor = value.As<TorchTensor>()) {
    tensors.push_back(tensor);
  } else if (const auto* const list = value.As<PickleList>()) {
    for (const auto* item : list->items) CollectTensors(*item, tensors);
  } else if (const auto* const tuple = value.As<PickleTuple>()) {
    for (const auto* item : tuple->items) CollectTensors(*item, tensors);
  } else if (const auto* const dict = value.As<PickleDict>()) {
    for (const auto& [key, item] : dict->items) CollectTensors(*item, tensors);
  } else if (const auto* const object = value.As<PickleObject>()) {
    if (object->state != nullptr) CollectTensors(*object->state, tensors);
  } else if (const auto* const array = value.As<NumpyArray>()) {
    // Every byte can be read.
    volatile char sum = 0;
    for (const char byte : array->data) sum = sum ^ byte;
  }
}

}  // namespace hearth::ingest

#endif  // HEARTH_TESTS_FUZZ_PICKLE_VISIT_H_
