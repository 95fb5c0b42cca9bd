#ifndef HEARTH_ENGINE_MODEL_MODEL_KINDS_H_
#define HEARTH_ENGINE_MODEL_MODEL_KINDS_H_

#include <memory>

#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// The kind of model that `options` ask for; null for no model. REQUIRES:
/// options are valid.
std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_MODEL_KINDS_H_
