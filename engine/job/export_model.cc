#include "engine/job/export_model.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::job {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kConfigKey[] = "config";

absl::Status WriteFiles(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& folder) {
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  HEARTH_RETURN_IF_ERROR(
      store::WriteSafeTensors(files, io::JoinPath(folder, kModelFile), model));
  const auto config = model.metadata.find(kConfigKey);
  if (config == model.metadata.end()) {
    return absl::InternalError("a model without its configuration");
  }
  return io::WriteFileAtomically(files, io::JoinPath(folder, kConfigFile),
                                 config->second);
}

// Renames the folder `from` to `to`, whose earlier contents go.
absl::Status Replace(io::FileSystem& files, const std::string& from,
                     const std::string& to) {
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(to));
  return files.Rename(from, to);
}

}  // namespace

absl::Status WriteModel(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& path) {
  const std::string temporary = path + io::kTemporarySuffix;
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(temporary));
  absl::Status status = WriteFiles(files, model, temporary);
  // A job that is run again after its end was lost finds its earlier model.
  if (status.ok()) status = Replace(files, temporary, path);
  if (!status.ok()) {
    // The first error is the one to tell.
    files.RemoveTree(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(io::ParentDirectory(path));
}

absl::Status ExportModel(io::FileSystem& files, const std::string& model_path,
                         const std::string& destination) {
  if (files.Stat(destination).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " exists; choose a new folder"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const store::SafeTensors model,
      store::ReadSafeTensors(files, ModelFilePath(model_path)));
  return WriteModel(files, model, destination);
}

std::string ModelFilePath(const std::string& model_path) {
  return io::JoinPath(model_path, kModelFile);
}

absl::StatusOr<std::string> ReadModelConfig(io::FileSystem& files,
                                            const std::string& model_path) {
  const std::string path = ModelFilePath(model_path);
  HEARTH_ASSIGN_OR_RETURN(const auto metadata,
                          store::ReadSafeTensorsMetadata(files, path));
  const auto config = metadata.find(kConfigKey);
  if (config != metadata.end()) return config->second;
  return absl::DataLossError(
      absl::StrCat(path, ": has no configuration in its header"));
}

}  // namespace hearth::job
