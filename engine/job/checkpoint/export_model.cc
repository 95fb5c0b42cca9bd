#include "engine/job/checkpoint/export_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::job {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kConfigKey[] = "config";

// Bytes of a model held at a time while it is copied.
constexpr uint64_t kPieceBytes = 1 << 20;

absl::Status WriteFiles(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& folder) {
  HEARTH_RETURN_IF_ERROR(
      store::WriteSafeTensors(files, io::JoinPath(folder, kModelFile), model));
  const auto config = model.metadata.find(kConfigKey);
  if (config == model.metadata.end()) {
    return absl::InternalError("a model without its configuration");
  }
  return io::WriteFileAtomically(files, io::JoinPath(folder, kConfigFile),
                                 config->second);
}

absl::Status CopyFile(io::FileSystem& files, const std::string& from,
                      const std::string& to) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(from));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::StreamWriter> copy,
                          io::StreamWriter::Create(files, to, info.size_bytes));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < info.size_bytes; at += piece.size()) {
    piece.resize(std::min(kPieceBytes, info.size_bytes - at));
    HEARTH_RETURN_IF_ERROR(file->Read(at, absl::MakeSpan(piece)));
    HEARTH_RETURN_IF_ERROR(copy->Append(piece));
  }
  return copy->Finish();
}

// Renames the folder `from` to `to`, replacing an earlier `to`.
absl::Status Replace(io::FileSystem& files, const std::string& from,
                     const std::string& to) {
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(to));
  return files.Rename(from, to);
}

// Makes the folder `path` with the files that `write` writes, atomically.
absl::Status WriteFolder(
    io::FileSystem& files, const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& folder)> write) {
  const std::string temporary = path + io::kTemporarySuffix;
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(temporary));
  absl::Status status = files.CreateDirectory(temporary);
  if (status.ok()) status = write(temporary);
  // A job that runs again after its end was lost finds its earlier model.
  if (status.ok()) status = Replace(files, temporary, path);
  if (!status.ok()) {
    // The first error is the one to return.
    files.RemoveTree(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(io::ParentDirectory(path));
}

}  // namespace

absl::Status WriteModel(io::FileSystem& files, const store::SafeTensors& model,
                        const std::string& path) {
  return WriteFolder(files, path, [&](const std::string& folder) {
    return WriteFiles(files, model, folder);
  });
}

absl::Status ExportModel(io::FileSystem& files, const std::string& model_path,
                         const std::string& destination) {
  if (files.Stat(destination).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " exists; choose a new folder"));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::string config,
                          ReadModelConfig(files, model_path));
  return WriteFolder(
      files, destination, [&](const std::string& folder) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(CopyFile(files, ModelFilePath(model_path),
                                        io::JoinPath(folder, kModelFile)));
        return io::WriteFileAtomically(files, io::JoinPath(folder, kConfigFile),
                                       config);
      });
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
