#ifndef HEARTH_SERVER_MAPPING_TRAINING_MAPPING_H_
#define HEARTH_SERVER_MAPPING_TRAINING_MAPPING_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"
#include "hearth/v1/spec.pb.h"
#include "server/mapping/request_checks.h"

/// Conversion of models and strategies. A model of a TrainSpec is a message,
/// and in the engine a struct of the same name (kName) with fields of the same
/// names; the code names no model.

namespace hearth::server {

/// Options of the model that `train` has; GraphSAGE's defaults without one.
/// REQUIRES: each alternative of TrainSpec.model has options in the engine; a
/// test checks that.
train::ModelOptions ToModelOptions(const v1::TrainSpec& train);

/// Adds faults that concern several options of the model: attention whose width
/// is no multiple of its heads. `path` leads to `train`.
void CheckModel(const std::string& path, const v1::TrainSpec& train,
                FieldViolations& violations);

/// Whether the strategy prepares plans that jobs can share.
bool MakesPlans(const v1::DataSpec& data);

/// Whether the job orders its training nodes by a partition, which it makes if
/// there is none.
bool OrdersByParts(const v1::DataSpec& data);

/// Whether the text is a way to choose hot rows (GidsStrategy.hot).
bool IsHotNodes(absl::string_view hot);

/// Engine's options for a checked spec.
strategy::StrategyOptions ToStrategyOptions(const v1::DataSpec& data,
                                            const v1::PipelineSpec& pipeline);

/// The budgets of a strategy that the engine chooses; absent where the spec
/// names one.
std::optional<strategy::CommonBudgets> ToAutomatic(
    const v1::DataSpec& data, const v1::PipelineSpec& pipeline);

/// The strategy's name, also of "auto".
std::string StrategyName(const v1::DataSpec& data);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_TRAINING_MAPPING_H_
