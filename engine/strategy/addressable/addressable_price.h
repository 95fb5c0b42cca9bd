#ifndef HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_PRICE_H_

#include "absl/status/statusor.h"
#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/pricing/price.h"

namespace hearth::strategy {

/// The price of `memory`: all files are read and checked first. The price of
/// `mmap`: every page that is not in the page cache is read by a fault of its
/// own, one after the other; pages are taken to be out of the
/// cache when the job begins. Never errors.
absl::StatusOr<Price> PriceAddressable(const MemoryOptions& options,
                                       const PricedJob& job);
absl::StatusOr<Price> PriceAddressable(const MmapOptions& options,
                                       const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_PRICE_H_
