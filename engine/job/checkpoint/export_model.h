#ifndef HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_
#define HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/safetensors.h"

namespace hearth::job {

/// Writes a model (TrainStep::Export) as the folder `path`, replacing an
/// earlier one, atomically: model.safetensors with PyTorch Geometric's
/// parameter names, and config.json.
absl::Status WriteModel(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& path);

/// Copies the model folder `model_path` to the new folder `destination`,
/// atomically. ALREADY_EXISTS if `destination` exists; NOT_FOUND if its parent
/// is missing.
absl::Status ExportModel(io::FileSystem& files, const std::string& model_path,
                         const std::string& destination);

/// Path of model.safetensors in the model folder `model_path`.
std::string ModelFilePath(const std::string& model_path);

/// The config.json that an export of the model folder `model_path` has.
/// DATA_LOSS, naming the file and its fault, if the model's file is damaged.
/// Reads no tensor.
absl::StatusOr<std::string> ReadModelConfig(io::FileSystem& files,
                                            const std::string& model_path);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_
