// A checkpoint is one safetensors file, replaced atomically:
//   tensors "state.NAME" and "best.NAME" (what TrainStep::Save gave),
//   "losses" [float32]; metadata "progress": everything else, as JSON.
#include "engine/job/checkpoint.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

using nlohmann::json;

constexpr char kFileName[] = "checkpoint.safetensors";
constexpr char kStatePrefix[] = "state.";
constexpr char kBestPrefix[] = "best.";
constexpr char kLosses[] = "losses";
constexpr char kProgress[] = "progress";
constexpr int kVersion = 3;

template <typename T>
json ToJson(const std::optional<T>& value) {
  return value.has_value() ? json(*value) : json(nullptr);
}

template <typename T>
std::optional<T> OptionalFromJson(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

json ToJson(const pipeline::StageStats& stage) {
  return {{"name", stage.name},
          {"threads", stage.threads},
          {"busy_seconds", stage.busy_seconds},
          {"starved_seconds", stage.starved_seconds},
          {"blocked_seconds", stage.blocked_seconds},
          {"items", stage.items}};
}

pipeline::StageStats StageFromJson(const json& value) {
  pipeline::StageStats stage;
  value.at("name").get_to(stage.name);
  value.at("threads").get_to(stage.threads);
  value.at("busy_seconds").get_to(stage.busy_seconds);
  value.at("starved_seconds").get_to(stage.starved_seconds);
  value.at("blocked_seconds").get_to(stage.blocked_seconds);
  value.at("items").get_to(stage.items);
  return stage;
}

json ToJson(const strategy::PassReport& pass) {
  json stages = json::array();
  for (const auto& stage : pass.stages) stages.push_back(ToJson(stage));
  json hits = json::array();
  for (const strategy::LevelHits& level : pass.hits) {
    hits.push_back({{"level", level.level}, {"rows", level.rows}});
  }
  json phases = json::array();
  for (const strategy::PhaseSeconds& phase : pass.phases) {
    phases.push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  }
  return {{"seconds", pass.seconds},
          {"batches", pass.batches},
          {"rows_needed", pass.rows_needed},
          {"bytes_needed", pass.bytes_needed},
          {"bytes_read", ToJson(pass.bytes_read)},
          {"read_ops", ToJson(pass.read_ops)},
          {"io_wait_seconds", ToJson(pass.io_wait_seconds)},
          {"rows_read", ToJson(pass.rows_read)},
          {"hits", std::move(hits)},
          {"phases", std::move(phases)},
          {"stages", std::move(stages)}};
}

strategy::PassReport PassFromJson(const json& value) {
  strategy::PassReport pass;
  value.at("seconds").get_to(pass.seconds);
  value.at("batches").get_to(pass.batches);
  value.at("rows_needed").get_to(pass.rows_needed);
  value.at("bytes_needed").get_to(pass.bytes_needed);
  pass.bytes_read = OptionalFromJson<int64_t>(value.at("bytes_read"));
  pass.read_ops = OptionalFromJson<int64_t>(value.at("read_ops"));
  pass.io_wait_seconds = OptionalFromJson<double>(value.at("io_wait_seconds"));
  pass.rows_read = OptionalFromJson<int64_t>(value.at("rows_read"));
  for (const json& level : value.at("hits")) {
    pass.hits.push_back({.level = level.at("level").get<std::string>(),
                         .rows = level.at("rows").get<int64_t>()});
  }
  for (const json& phase : value.at("phases")) {
    pass.phases.push_back({.name = phase.at("name").get<std::string>(),
                           .seconds = phase.at("seconds").get<double>()});
  }
  for (const json& stage : value.at("stages")) {
    pass.stages.push_back(StageFromJson(stage));
  }
  return pass;
}

json ToJson(const EpochReport& epoch) {
  return {{"epoch", epoch.epoch},
          {"loss", epoch.loss},
          {"metric", train::Name(epoch.metric)},
          {"valid_metric", ToJson(epoch.valid_metric)},
          {"training", ToJson(epoch.training)},
          {"validation", ToJson(epoch.validation)}};
}

train::Metric MetricFromJson(const json& value) {
  for (const train::Metric metric :
       {train::Metric::kMicroF1, train::Metric::kMeanSquaredError}) {
    if (value == train::Name(metric)) return metric;
  }
  return train::Metric::kAccuracy;
}

EpochReport EpochFromJson(const json& value) {
  EpochReport epoch;
  value.at("epoch").get_to(epoch.epoch);
  value.at("loss").get_to(epoch.loss);
  epoch.metric = MetricFromJson(value.at("metric"));
  epoch.valid_metric = OptionalFromJson<double>(value.at("valid_metric"));
  epoch.training = PassFromJson(value.at("training"));
  epoch.validation = PassFromJson(value.at("validation"));
  return epoch;
}

std::string ProgressText(const Checkpoint& checkpoint) {
  json epochs = json::array();
  for (const EpochReport& epoch : checkpoint.epochs) {
    epochs.push_back(ToJson(epoch));
  }
  const json progress = {{"version", kVersion},
                         {"epoch", checkpoint.epoch},
                         {"next_batch", checkpoint.next_batch},
                         {"epoch_loss_sum", checkpoint.epoch_loss_sum},
                         {"epoch_seeds", checkpoint.epoch_seeds},
                         {"epoch_training", ToJson(checkpoint.epoch_training)},
                         {"epochs", std::move(epochs)},
                         {"best_epoch", checkpoint.best_epoch},
                         {"best_metric", ToJson(checkpoint.best_metric)},
                         {"peak_memory_bytes", checkpoint.peak_memory_bytes},
                         {"resumes", checkpoint.resumes}};
  return progress.dump();
}

void ReadProgress(const json& progress, Checkpoint& checkpoint) {
  progress.at("epoch").get_to(checkpoint.epoch);
  progress.at("next_batch").get_to(checkpoint.next_batch);
  progress.at("epoch_loss_sum").get_to(checkpoint.epoch_loss_sum);
  progress.at("epoch_seeds").get_to(checkpoint.epoch_seeds);
  checkpoint.epoch_training = PassFromJson(progress.at("epoch_training"));
  for (const json& epoch : progress.at("epochs")) {
    checkpoint.epochs.push_back(EpochFromJson(epoch));
  }
  progress.at("best_epoch").get_to(checkpoint.best_epoch);
  checkpoint.best_metric = OptionalFromJson<double>(progress.at("best_metric"));
  progress.at("peak_memory_bytes").get_to(checkpoint.peak_memory_bytes);
  progress.at("resumes").get_to(checkpoint.resumes);
}

store::Tensor LossesTensor(const std::vector<float>& losses) {
  store::Tensor tensor;
  tensor.dtype = store::DType::kFloat32;
  tensor.shape = {static_cast<int64_t>(losses.size())};
  tensor.data.resize(losses.size() * sizeof(float));
  std::memcpy(tensor.data.data(), losses.data(), tensor.data.size());
  return tensor;
}

// Moves the file's tensors to where they belong in `checkpoint`.
absl::Status SortTensors(store::TensorMap tensors, Checkpoint& checkpoint) {
  for (auto& [name, tensor] : tensors) {
    if (absl::StartsWith(name, kStatePrefix)) {
      checkpoint.state[name.substr(sizeof(kStatePrefix) - 1)] =
          std::move(tensor);
    } else if (absl::StartsWith(name, kBestPrefix)) {
      checkpoint.best_state[name.substr(sizeof(kBestPrefix) - 1)] =
          std::move(tensor);
    } else if (name == kLosses && tensor.dtype == store::DType::kFloat32) {
      checkpoint.losses.resize(tensor.data.size() / sizeof(float));
      std::memcpy(checkpoint.losses.data(), tensor.data.data(),
                  tensor.data.size());
    } else {
      return absl::DataLossError(absl::StrCat("unknown tensor ", name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> FromSafeTensors(store::SafeTensors contents) {
  Checkpoint checkpoint;
  try {
    const json progress = json::parse(contents.metadata[kProgress]);
    if (progress.at("version") != kVersion) {
      return absl::FailedPreconditionError("written by another version");
    }
    ReadProgress(progress, checkpoint);
  } catch (const json::exception& error) {
    return absl::DataLossError(error.what());
  }
  HEARTH_RETURN_IF_ERROR(SortTensors(std::move(contents.tensors), checkpoint));
  return checkpoint;
}

}  // namespace

absl::Status WriteCheckpoint(io::FileSystem& files,
                             const std::string& directory,
                             const Checkpoint& checkpoint) {
  store::SafeTensors contents;
  for (const auto& [name, tensor] : checkpoint.state) {
    contents.tensors[kStatePrefix + name] = tensor;
  }
  for (const auto& [name, tensor] : checkpoint.best_state) {
    contents.tensors[kBestPrefix + name] = tensor;
  }
  contents.tensors[kLosses] = LossesTensor(checkpoint.losses);
  contents.metadata[kProgress] = ProgressText(checkpoint);
  return store::WriteSafeTensors(files, io::JoinPath(directory, kFileName),
                                 contents);
}

absl::StatusOr<std::optional<Checkpoint>> ReadCheckpoint(
    io::FileSystem& files, const std::string& directory) {
  const std::string path = io::JoinPath(directory, kFileName);
  absl::StatusOr<store::SafeTensors> contents =
      store::ReadSafeTensors(files, path);
  if (absl::IsNotFound(contents.status())) return std::nullopt;
  HEARTH_RETURN_IF_ERROR(contents.status());
  absl::StatusOr<Checkpoint> checkpoint = FromSafeTensors(*std::move(contents));
  HEARTH_RETURN_IF_ERROR(Annotate(checkpoint.status(), path));
  return *std::move(checkpoint);
}

}  // namespace hearth::job
