#ifndef HEARTH_ENGINE_STRATEGY_PACKING_PASS_DIGEST_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_PASS_DIGEST_H_

#include <string>

#include "absl/types/span.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"

/// The identity of the samples of a pass, for names of plans.

namespace hearth::strategy {

/// Hexadecimal digest of everything that the shards of a pass depend on, the
/// seeds in their order included and the dataset excluded. The first batch, and
/// embeddings kept when the pass begins, make no difference.
std::string DigestOfPass(const Pass& pass,
                         absl::Span<const store::NodeId> seeds);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_PASS_DIGEST_H_
