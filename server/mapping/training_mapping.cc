#include "server/mapping/training_mapping.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/strategy/memory_budget.h"

namespace hearth::server {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using train::ModelOptions;

// Alternative of TrainSpec.model that is set; null without one.
const FieldDescriptor* ModelField(const v1::TrainSpec& train) {
  return train.GetReflection()->GetOneofFieldDescriptor(
      train, v1::TrainSpec::descriptor()->FindOneofByName("model"));
}

int64_t Number(const Message& message, const std::string& name) {
  return message.GetReflection()->GetUInt32(
      message, message.GetDescriptor()->FindFieldByName(name));
}

// Sets `options` to the alternative of this name; false if there is none.
template <size_t... kIndices>
bool Choose(const std::string& name, std::index_sequence<kIndices...>,
            ModelOptions& options) {
  return ((std::variant_alternative_t<kIndices, ModelOptions>::kName == name &&
           (options.emplace<kIndices>(), true)) ||
          ...);
}

}  // namespace

ModelOptions ToModelOptions(const v1::TrainSpec& train) {
  ModelOptions options;
  const FieldDescriptor* field = ModelField(train);
  if (field == nullptr) return options;
  Choose(field->name(),
         std::make_index_sequence<std::variant_size_v<ModelOptions>>(),
         options);
  const Message& message = train.GetReflection()->GetMessage(train, field);
  std::visit(
      [&message](auto& model) {
        if constexpr (requires { model.hidden; }) {
          model.hidden = Number(message, "hidden");
        }
        if constexpr (requires { model.heads; }) {
          model.heads = Number(message, "heads");
        }
        if constexpr (requires { model.bases; }) {
          model.bases = Number(message, "bases");
        }
      },
      options);
  return options;
}

void CheckModel(const std::string& path, const v1::TrainSpec& train,
                FieldViolations& violations) {
  std::visit(
      [&](const auto& model) {
        if constexpr (requires { model.heads; }) {
          if (model.heads > 0 && model.hidden % model.heads == 0) return;
          violations.Add(absl::StrCat(path, ".", model.kName, ".hidden"),
                         absl::StrCat("must be a multiple of heads (",
                                      model.heads, "), not ", model.hidden));
        }
      },
      ToModelOptions(train));
}

namespace {

uint64_t CpuCacheBytes(const v1::Budgets& budgets) {
  return budgets.has_cpu_cache_rule() ? strategy::kAutoBytes
                                      : budgets.cpu_cache_bytes();
}

strategy::DiskgnnOptions ToDiskgnnOptions(const v1::DataSpec& data,
                                          int io_depth) {
  const v1::DiskgnnStrategy& diskgnn = data.diskgnn();
  strategy::DiskgnnOptions options;
  options.cpu_cache_bytes = CpuCacheBytes(data.budgets());
  options.gpu_cache_bytes = data.budgets().gpu_cache_bytes();
  if (diskgnn.has_disk_cache_bytes()) {
    options.disk_cache_bytes = diskgnn.disk_cache_bytes();
  }
  options.disk_limit_bytes = diskgnn.disk_limit_bytes();
  options.disk_limit_ratio = diskgnn.disk_limit_ratio();
  options.prepare_memory_bytes = diskgnn.has_prepare_memory_bytes()
                                     ? diskgnn.prepare_memory_bytes()
                                     : strategy::kAutoBytes;
  options.io_depth = io_depth;
  return options;
}

// Way to choose hot rows with this name; kFile for other texts.
strategy::HotNodes HotNodesOf(absl::string_view hot) {
  for (const strategy::HotNodes named :
       {strategy::HotNodes::kReversePageRank, strategy::HotNodes::kOutDegree,
        strategy::HotNodes::kFrequency, strategy::HotNodes::kRandom}) {
    if (hot == strategy::Name(named)) return named;
  }
  return strategy::HotNodes::kFile;
}

strategy::GidsOptions ToGidsOptions(const v1::DataSpec& data, int io_depth) {
  strategy::GidsOptions options;
  if (data.budgets().has_cpu_cache_bytes()) {
    options.cpu_cache_bytes = data.budgets().cpu_cache_bytes();
  }
  options.hot = HotNodesOf(data.gids().hot());
  if (options.hot == strategy::HotNodes::kFile) {
    options.hot_file = data.gids().hot();
  }
  if (data.gids().has_window_cache_bytes()) {
    options.window_cache_bytes = data.gids().window_cache_bytes();
  }
  options.gpu_cache_bytes = data.budgets().gpu_cache_bytes();
  options.window = data.gids().window();
  options.merge_max = data.gids().merge_max();
  options.staging_bytes = data.budgets().staging_bytes();
  options.io_depth = io_depth;
  options.striped = data.gids().striped();
  return options;
}

}  // namespace

bool IsHotNodes(absl::string_view hot) {
  return absl::StartsWith(hot, "/") ||
         HotNodesOf(hot) != strategy::HotNodes::kFile;
}

bool MakesPlans(const v1::DataSpec& data) {
  return strategy::KindOf(ToStrategyOptions(data, {})).makes_plans;
}

bool OrdersByParts(const v1::DataSpec& data) {
  return data.has_partition() || data.has_locality();
}

strategy::StrategyOptions ToStrategyOptions(const v1::DataSpec& data,
                                            const v1::PipelineSpec& pipeline) {
  const int io_depth = static_cast<int>(pipeline.io_depth());
  switch (data.strategy_case()) {
    case v1::DataSpec::kMmap:
      return strategy::MmapOptions{.read_ahead = data.mmap().read_ahead()};
    case v1::DataSpec::kGnndrive:
      return strategy::GnndriveOptions{
          .cpu_cache_bytes = CpuCacheBytes(data.budgets()),
          .staging_bytes = data.budgets().staging_bytes(),
          .reorder = data.gnndrive().reorder(),
          .buffered_reads = data.gnndrive().buffered_reads(),
          .sample_queue = static_cast<int>(data.gnndrive().sample_queue()),
          .train_queue = static_cast<int>(data.gnndrive().train_queue()),
          .io_depth = io_depth};
    case v1::DataSpec::kGinex:
      return strategy::GinexOptions{
          .cpu_cache_bytes = CpuCacheBytes(data.budgets()),
          .neighbor_cache_bytes = data.ginex().neighbor_cache_bytes(),
          .neighbor_rank = data.ginex().neighbor_rank_cross()
                               ? strategy::NeighborRank::kCross
                               : strategy::NeighborRank::kRatio,
          .superbatch = data.ginex().superbatch(),
          .io_depth = io_depth};
    case v1::DataSpec::kDiskgnn:
      return ToDiskgnnOptions(data, io_depth);
    case v1::DataSpec::kOutre:
      return strategy::OutreOptions{
          .cpu_cache_bytes = CpuCacheBytes(data.budgets()),
          .neighbor_cache_bytes = data.outre().neighbor_cache_bytes(),
          .superbatch = data.outre().superbatch(),
          .io_depth = io_depth};
    case v1::DataSpec::kGids:
      return ToGidsOptions(data, io_depth);
    case v1::DataSpec::kForesight:
      return strategy::ForesightOptions{
          .cpu_cache_bytes = CpuCacheBytes(data.budgets()),
          .gpu_cache_bytes = data.budgets().gpu_cache_bytes(),
          .disk_limit_bytes = data.foresight().disk_limit_bytes(),
          .disk_limit_ratio = data.foresight().disk_limit_ratio(),
          .first_epochs = data.foresight().first_epochs(),
          .io_depth = io_depth};
    case v1::DataSpec::kMarius:
      return strategy::MariusOptions{
          .partitions = static_cast<int32_t>(data.marius().partitions()),
          .partition_buffer_bytes = data.marius().has_partition_buffer_bytes()
                                        ? data.marius().partition_buffer_bytes()
                                        : strategy::kAutoBytes};
    // The engine chooses (ToAutomatic).
    case v1::DataSpec::kAuto:
    case v1::DataSpec::kMemory:
    case v1::DataSpec::STRATEGY_NOT_SET:
      break;
  }
  return strategy::MemoryOptions{};
}

std::optional<strategy::CommonBudgets> ToAutomatic(
    const v1::DataSpec& data, const v1::PipelineSpec& pipeline) {
  if (!data.has_auto_()) return std::nullopt;
  return strategy::CommonBudgets{
      .cpu_cache_bytes = CpuCacheBytes(data.budgets()),
      .gpu_cache_bytes = data.budgets().gpu_cache_bytes(),
      .staging_bytes = data.budgets().staging_bytes(),
      .io_depth = static_cast<int>(pipeline.io_depth())};
}

std::string StrategyName(const v1::DataSpec& data) {
  if (data.has_auto_()) return "auto";
  return strategy::Name(ToStrategyOptions(data, {}));
}

}  // namespace hearth::server
