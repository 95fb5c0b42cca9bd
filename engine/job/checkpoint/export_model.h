#ifndef HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_
#define HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/safetensors.h"

namespace hearth::job {

/// Writes a model (TrainStep::Export) as the folder `path`, replacing what is
/// there, whole or not at all: model.safetensors with PyTorch Geometric's
/// parameter names, and config.json.
absl::Status WriteModel(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& path);

/// Copies the model folder `model_path` to the new folder `destination`, whole
/// or not at all. ALREADY_EXISTS if something is there; NOT_FOUND if its parent
/// is missing.
absl::Status ExportModel(io::FileSystem& files, const std::string& model_path,
                         const std::string& destination);

/// The file of the model folder `model_path` that has the tensors.
std::string ModelFilePath(const std::string& model_path);

/// The config.json that an export of the model folder `model_path` has.
/// DATA_LOSS, naming the file and what is wrong in it, if the model's file is
/// not whole. Reads no tensor.
absl::StatusOr<std::string> ReadModelConfig(io::FileSystem& files,
                                            const std::string& model_path);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CHECKPOINT_EXPORT_MODEL_H_
