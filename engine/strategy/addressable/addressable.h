#ifndef HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_
#define HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/store/dataset.h"
#include "engine/store/residency.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// The strategies whose feature rows all have an address: `memory`
/// (Residency::kMemory) and `mmap` (Residency::kMapped). Stages: sample,
/// assemble, train. See NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    store::Residency residency, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const Clock& clock);

/// What it holds at most.
MemoryEstimate EstimateAddressableMemory(store::Residency residency,
                                         const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_
