#include "engine/job/export_model.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::job {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kConfigKey[] = "config";

}  // namespace

absl::Status WriteModel(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& path) {
  const std::string temporary = path + io::kTemporarySuffix;
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(temporary));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(temporary));
  HEARTH_RETURN_IF_ERROR(store::WriteSafeTensors(
      files, io::JoinPath(temporary, kModelFile), model));
  const auto config = model.metadata.find(kConfigKey);
  if (config == model.metadata.end()) {
    return absl::InternalError("a model without its configuration");
  }
  HEARTH_RETURN_IF_ERROR(io::WriteFileAtomically(
      files, io::JoinPath(temporary, kConfigFile), config->second));
  // A job that is run again after its end was lost finds its earlier model.
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(path));
  HEARTH_RETURN_IF_ERROR(files.Rename(temporary, path));
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
      store::ReadSafeTensors(files, io::JoinPath(model_path, kModelFile)));
  return WriteModel(files, model, destination);
}

}  // namespace hearth::job
