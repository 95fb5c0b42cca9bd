#ifndef HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_
#define HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_

#include <cstdint>

#include "engine/strategy/strategy.h"
#include "hearth/v1/spec.pb.h"
#include "server/mapping/field_violations.h"

namespace hearth::server {

/// Fills in the defaults of the strategy of `data` and of its budgets, and
/// notes what is out of bounds.
void CheckStrategy(bool has_gpu, v1::DataSpec& data,
                   FieldViolations& violations);

/// Extractors that a strategy has unless the spec says otherwise: two of
/// gnndrive's, since one leaves the disk idle while it claims rows and hands
/// them over.
uint32_t DefaultExtractors(const v1::DataSpec& data);

/// Whether the strategy prepares plans that jobs can share.
bool MakesPlans(const v1::DataSpec& data);

/// The engine's options for a spec that was checked.
strategy::StrategyOptions ToStrategyOptions(const v1::DataSpec& data,
                                            const v1::PipelineSpec& pipeline);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_
