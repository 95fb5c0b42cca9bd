#ifndef HEARTH_ENGINE_MODEL_MODEL_KINDS_H_
#define HEARTH_ENGINE_MODEL_MODEL_KINDS_H_

#include <memory>

#include "absl/status/status.h"
#include "engine/model/model_kind.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// The kind of model that `options` ask for, for a graph of this shape; null
/// for no model. REQUIRES: both are valid.
std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options,
                                        const train::ModelShape& shape);

/// INVALID_ARGUMENT saying why there is no such model for a graph of these
/// types. REQUIRES: both are valid.
absl::Status CheckTypes(const train::ModelOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_MODEL_KINDS_H_
