#ifndef HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_
#define HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_

#include "absl/strings/string_view.h"
#include "engine/strategy/kinds.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::server {

/// Whether the strategy prepares plans that jobs can share.
bool MakesPlans(const v1::DataSpec& data);

/// Whether the text is a way to choose hot rows (GidsStrategy.hot).
bool IsHotNodes(absl::string_view hot);

/// The engine's options for a spec that was checked.
strategy::StrategyOptions ToStrategyOptions(const v1::DataSpec& data,
                                            const v1::PipelineSpec& pipeline);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_STRATEGY_MAPPING_H_
