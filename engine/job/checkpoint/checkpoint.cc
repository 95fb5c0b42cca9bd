// A checkpoint is one safetensors file. Tensors: "state.NAME" and "best.NAME"
// (from TrainStep::Save) and, in the middle of an epoch, "history.NAME" (from
// HistoryCache::Save). Metadata: "progress", everything else as JSON, and the
// CRC32C of tensors and progress, in hexadecimal digits.
//
// There are two files, for even and for odd generations, so that the newest
// generation and the one before exist. Writing:
//   1. Write to a temporary file, and sync it.
//   2. Rename it over the generation before the last, and sync the folder.
// Finding: read the metadata of both, then check the tensors of the newer one,
// and of the older one if that is damaged. A damaged file stays: the generation
// after the next replaces it.
//
// Version 3 had one file, the even one, without a number (it reads as
// generation 0) and without checksums, with all epochs' reports and all losses.
#include "engine/job/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/job/checkpoint/report_json.h"
#include "engine/store/array_type.h"

namespace hearth::job {
namespace {

using nlohmann::json;
using Metadata = std::map<std::string, std::string>;

// Names of even and of odd generations.
constexpr std::array<const char*, 2> kFileNames = {
    "checkpoint.safetensors", "checkpoint-odd.safetensors"};
constexpr char kStatePrefix[] = "state.";
constexpr char kBestPrefix[] = "best.";
constexpr char kHistoryPrefix[] = "history.";
constexpr char kProgress[] = "progress";
constexpr char kProgressCrc[] = "progress_crc32c";
constexpr char kTensorsCrc[] = "tensors_crc32c";
constexpr int kVersion = 4;
// Versions with histories, and with gradients of histories; older programs
// refuse them.
constexpr int kVersionWithHistories = 5;
constexpr int kVersionWithGradients = 6;
// With numbers of machines; those have no histories.
constexpr int kVersionWithMachines = 7;
constexpr int kNewestVersion = kVersionWithMachines;
constexpr int kVersionWithLosses = 3;
constexpr char kLosses[] = "losses";

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string CrcText(uint32_t crc) { return absl::StrFormat("%08x", crc); }

// Checksum of the tensors in the order of their names; covers names, types and
// shapes.
class TensorsCrc {
 public:
  void AddTensor(const std::string& name, const store::Tensor& tensor) {
    AddData(BytesOf(name));
    AddData(BytesOf(store::Name(tensor.dtype)));
    AddData({reinterpret_cast<const std::byte*>(tensor.shape.data()),
             tensor.shape.size() * sizeof(tensor.shape[0])});
  }
  void AddData(absl::Span<const std::byte> data) { crc_ = Crc32c(data, crc_); }

  std::string Text() const { return CrcText(crc_); }

 private:
  uint32_t crc_ = 0;
};

std::string CrcOf(const store::TensorMap& tensors) {
  TensorsCrc crc;
  for (const auto& [name, tensor] : tensors) {
    crc.AddTensor(name, tensor);
    crc.AddData(tensor.data);
  }
  return crc.Text();
}

// The least version whose programs know everything in the checkpoint.
int VersionOf(const Checkpoint& checkpoint) {
  if (!checkpoint.machines.empty()) return kVersionWithMachines;
  if (checkpoint.histories.empty()) return kVersion;
  return checkpoint.histories.count("gradients") == 0 ? kVersionWithHistories
                                                      : kVersionWithGradients;
}

std::string ProgressText(const Checkpoint& checkpoint) {
  json progress = {
      {"version", VersionOf(checkpoint)},
      {"generation", checkpoint.generation},
      {"fingerprint", checkpoint.fingerprint},
      {"arithmetic", checkpoint.arithmetic},
      {"epoch", checkpoint.epoch},
      {"next_batch", checkpoint.next_batch},
      {"losses", absl::BytesToHexString(checkpoint.losses.SaveState())},
      {"epoch_loss_sum", checkpoint.epoch_loss_sum},
      {"epoch_seeds", checkpoint.epoch_seeds},
      {"epoch_training", ToJson(checkpoint.epoch_training)},
      {"last_epoch", checkpoint.last_epoch.has_value()
                         ? ToJson(*checkpoint.last_epoch)
                         : json(nullptr)},
      {"best_epoch", checkpoint.best_epoch},
      {"best_metric", ToJson(checkpoint.best_metric)},
      {"peak_memory_bytes", checkpoint.peak_memory_bytes},
      {"resumes", checkpoint.resumes}};
  for (const MachineChange& change : checkpoint.machines) {
    progress["machines"].push_back(
        {change.epoch, change.batch, change.machines});
  }
  return progress.dump();
}

// ---- Reading. Errors about contents are DATA_LOSS, without the file's name.

// Reads the fields that version 3 has, too.
void ReadPosition(const json& progress, Checkpoint& checkpoint) {
  progress.at("epoch").get_to(checkpoint.epoch);
  progress.at("next_batch").get_to(checkpoint.next_batch);
  progress.at("epoch_loss_sum").get_to(checkpoint.epoch_loss_sum);
  progress.at("epoch_seeds").get_to(checkpoint.epoch_seeds);
  checkpoint.epoch_training = PassFromJson(progress.at("epoch_training"));
  progress.at("best_epoch").get_to(checkpoint.best_epoch);
  checkpoint.best_metric = OptionalFromJson<double>(progress.at("best_metric"));
  progress.at("peak_memory_bytes").get_to(checkpoint.peak_memory_bytes);
  progress.at("resumes").get_to(checkpoint.resumes);
}

void ReadVersion3(const json& progress, Checkpoint& checkpoint) {
  const json& epochs = progress.at("epochs");
  if (!epochs.empty()) checkpoint.last_epoch = EpochFromJson(epochs.back());
}

absl::Status ReadVersion4(const json& progress, Checkpoint& checkpoint) {
  progress.at("generation").get_to(checkpoint.generation);
  progress.at("fingerprint").get_to(checkpoint.fingerprint);
  checkpoint.arithmetic = progress.value("arithmetic", "");
  const json& last_epoch = progress.at("last_epoch");
  if (!last_epoch.is_null()) checkpoint.last_epoch = EpochFromJson(last_epoch);
  std::optional<Sha256> losses = Sha256::Restore(
      absl::HexStringToBytes(progress.at("losses").get<std::string>()));
  if (!losses.has_value()) {
    return absl::DataLossError("\"losses\" is not a digest's state");
  }
  checkpoint.losses = *std::move(losses);
  for (const json& change : progress.value("machines", json::array())) {
    checkpoint.machines.push_back({.epoch = change.at(0).get<int64_t>(),
                                   .batch = change.at(1).get<int64_t>(),
                                   .machines = change.at(2).get<int64_t>()});
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> ParseProgress(const std::string& text) {
  Checkpoint checkpoint;
  try {
    const json progress = json::parse(text);
    const int version = progress.at("version").get<int>();
    if (version < kVersionWithLosses || version > kNewestVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("is of version ", version,
                       ", which another hearthd wrote; this one "
                       "goes on from versions ",
                       kVersionWithLosses, " to ", kNewestVersion));
    }
    ReadPosition(progress, checkpoint);
    if (version == kVersionWithLosses) {
      ReadVersion3(progress, checkpoint);
    } else {
      HEARTH_RETURN_IF_ERROR(ReadVersion4(progress, checkpoint));
    }
  } catch (const json::exception& error) {
    return absl::DataLossError(error.what());
  }
  return checkpoint;
}

// Reads the checkpoint without its tensors.
absl::StatusOr<Checkpoint> FromMetadata(Metadata& metadata) {
  const std::string& text = metadata[kProgress];
  const std::string& crc = metadata[kProgressCrc];
  if (!crc.empty() && crc != CrcText(Crc32c(BytesOf(text)))) {
    return absl::DataLossError("the checksum of its progress does not match");
  }
  HEARTH_ASSIGN_OR_RETURN(Checkpoint checkpoint, ParseProgress(text));
  if (crc.empty() && checkpoint.generation > 0) {
    return absl::DataLossError("the checksum of its progress is missing");
  }
  return checkpoint;
}

// Moves a file's tensors to their maps in `checkpoint`.
void SortTensors(store::TensorMap tensors, Checkpoint& checkpoint) {
  for (auto& [name, tensor] : tensors) {
    if (absl::StartsWith(name, kStatePrefix)) {
      checkpoint.state[name.substr(sizeof(kStatePrefix) - 1)] =
          std::move(tensor);
    } else if (absl::StartsWith(name, kBestPrefix)) {
      checkpoint.best_state[name.substr(sizeof(kBestPrefix) - 1)] =
          std::move(tensor);
    } else if (absl::StartsWith(name, kHistoryPrefix)) {
      checkpoint.histories[name.substr(sizeof(kHistoryPrefix) - 1)] =
          std::move(tensor);
    }
  }
}

bool HasPlace(const std::string& name) {
  return absl::StartsWith(name, kStatePrefix) ||
         absl::StartsWith(name, kBestPrefix) ||
         absl::StartsWith(name, kHistoryPrefix);
}

// Checks the tensors of a file without keeping them.
class TensorCheck final : public store::SafeTensorsVisitor {
 public:
  void OnTensor(const std::string& name, const store::Tensor& tensor) override {
    crc_.AddTensor(name, tensor);
    is_losses_ = name == kLosses;
    has_losses_ |= is_losses_;
    if (!is_losses_ && !HasPlace(name) && unknown_.empty()) unknown_ = name;
  }
  void OnData(absl::Span<const std::byte> piece) override {
    crc_.AddData(piece);
    if (is_losses_) losses_.Update(piece);
  }

  // Checks the checksum `crc` of the tensors, and adds the digest of losses of
  // version 3 to `checkpoint`.
  absl::Status Complete(const std::string& crc, Checkpoint& checkpoint) {
    if (checkpoint.generation > 0 && crc != crc_.Text()) {
      return absl::DataLossError("the checksum of its tensors does not match");
    }
    if (has_losses_ && checkpoint.generation > 0) unknown_ = kLosses;
    if (!unknown_.empty()) {
      return absl::DataLossError(absl::StrCat("unknown tensor ", unknown_));
    }
    if (has_losses_) checkpoint.losses = std::move(losses_);
    return absl::OkStatus();
  }

 private:
  TensorsCrc crc_;
  Sha256 losses_;
  bool is_losses_ = false;
  bool has_losses_ = false;
  std::string unknown_;
};

// Reads the checkpoint without its tensors, and checks that these are intact.
absl::StatusOr<Checkpoint> CheckWhole(io::FileSystem& files,
                                      const std::string& path) {
  TensorCheck tensors;
  HEARTH_ASSIGN_OR_RETURN(Metadata metadata,
                          store::ScanSafeTensors(files, path, tensors));
  absl::StatusOr<Checkpoint> checkpoint = FromMetadata(metadata);
  HEARTH_RETURN_IF_ERROR(Annotate(checkpoint.status(), path));
  HEARTH_RETURN_IF_ERROR(
      Annotate(tensors.Complete(metadata[kTensorsCrc], *checkpoint), path));
  return checkpoint;
}

std::string PathOf(const std::string& directory, const Checkpoint& checkpoint) {
  return io::JoinPath(directory, CheckpointFileName(checkpoint));
}

// A file, with its checkpoint without tensors.
struct Candidate {
  std::string path;
  Checkpoint checkpoint;
};

absl::Status CheckFingerprint(const Checkpoint& checkpoint,
                              const std::string& fingerprint) {
  if (checkpoint.fingerprint.empty() || checkpoint.fingerprint == fingerprint) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "was trained on a dataset of fingerprint ", checkpoint.fingerprint,
      "; the dataset has changed since: it has ", fingerprint));
}

// Reads the checkpoint of a file without its tensors.
absl::StatusOr<Checkpoint> ReadMetadata(io::FileSystem& files,
                                        const std::string& path,
                                        const std::string& fingerprint) {
  HEARTH_ASSIGN_OR_RETURN(Metadata metadata,
                          store::ReadSafeTensorsMetadata(files, path));
  absl::StatusOr<Checkpoint> checkpoint = FromMetadata(metadata);
  HEARTH_RETURN_IF_ERROR(Annotate(checkpoint.status(), path));
  HEARTH_RETURN_IF_ERROR(
      Annotate(CheckFingerprint(*checkpoint, fingerprint), path));
  return checkpoint;
}

// Files with intact progress, newest first; `damages` gets the faults of the
// others.
absl::StatusOr<std::vector<Candidate>> FindCandidates(
    io::FileSystem& files, const std::string& directory,
    const std::string& fingerprint, std::vector<std::string>& damages) {
  std::vector<Candidate> candidates;
  for (const char* name : kFileNames) {
    const std::string path = io::JoinPath(directory, name);
    absl::StatusOr<Checkpoint> checkpoint =
        ReadMetadata(files, path, fingerprint);
    if (absl::IsNotFound(checkpoint.status())) continue;
    if (absl::IsDataLoss(checkpoint.status())) {
      damages.emplace_back(checkpoint.status().message());
      continue;
    }
    HEARTH_RETURN_IF_ERROR(checkpoint.status());
    candidates.push_back({path, *std::move(checkpoint)});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.checkpoint.generation > b.checkpoint.generation;
            });
  return candidates;
}

}  // namespace

std::string CheckpointFileName(const Checkpoint& checkpoint) {
  return kFileNames[checkpoint.generation % kFileNames.size()];
}

absl::Status WriteCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             Checkpoint& checkpoint) {
  store::SafeTensors contents;
  for (auto& [name, tensor] : checkpoint.state) {
    contents.tensors[kStatePrefix + name] = std::move(tensor);
  }
  checkpoint.state.clear();
  for (const auto& [name, tensor] : checkpoint.best_state) {
    contents.tensors[kBestPrefix + name] = tensor;
  }
  const uint64_t last = checkpoint.generation++;
  const std::string progress = ProgressText(checkpoint);
  for (auto& [name, tensor] : checkpoint.histories) {
    contents.tensors[kHistoryPrefix + name] = std::move(tensor);
  }
  checkpoint.histories.clear();
  contents.metadata = {{kProgress, progress},
                       {kProgressCrc, CrcText(Crc32c(BytesOf(progress)))},
                       {kTensorsCrc, CrcOf(contents.tensors)}};
  absl::Status status =
      store::WriteSafeTensors(files, PathOf(directory, checkpoint), contents);
  if (!status.ok()) checkpoint.generation = last;
  return status;
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(io::FileSystem& files,
                                               const std::string& directory,
                                               const std::string& fingerprint) {
  FoundCheckpoint found;
  HEARTH_ASSIGN_OR_RETURN(
      const std::vector<Candidate> candidates,
      FindCandidates(files, directory, fingerprint, found.damages));
  for (const Candidate& candidate : candidates) {
    absl::StatusOr<Checkpoint> checkpoint = CheckWhole(files, candidate.path);
    if (checkpoint.ok()) {
      found.checkpoint = *std::move(checkpoint);
      return found;
    }
    if (!absl::IsDataLoss(checkpoint.status())) return checkpoint.status();
    found.damages.emplace_back(checkpoint.status().message());
  }
  return found;
}

absl::Status ReadTensors(io::FileSystem& files, const std::string& directory,
                         Checkpoint& checkpoint) {
  const std::string path = PathOf(directory, checkpoint);
  HEARTH_ASSIGN_OR_RETURN(store::SafeTensors contents,
                          store::ReadSafeTensors(files, path));
  absl::StatusOr<Checkpoint> now = FromMetadata(contents.metadata);
  HEARTH_RETURN_IF_ERROR(Annotate(now.status(), path));
  if (now->generation != checkpoint.generation ||
      (now->generation > 0 &&
       contents.metadata[kTensorsCrc] != CrcOf(contents.tensors))) {
    return absl::DataLossError(
        absl::StrCat(path, ": has changed since the job began"));
  }
  SortTensors(std::move(contents.tensors), checkpoint);
  return absl::OkStatus();
}

absl::Status RemoveCheckpoints(io::FileSystem& files,
                               const std::string& directory) {
  for (const char* name : kFileNames) {
    HEARTH_RETURN_IF_ERROR(files.RemoveTree(io::JoinPath(directory, name)));
  }
  return files.SyncDirectory(directory);
}

absl::Status CheckCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             const std::string& fingerprint) {
  std::vector<std::string> damages;
  return FindCandidates(files, directory, fingerprint, damages).status();
}

}  // namespace hearth::job
