#include "server/mapping/strategy_mapping.h"

#include "absl/strings/match.h"
#include "engine/strategy/budget.h"

namespace hearth::server {
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

// The way to choose hot rows that has this name; otherwise kFile.
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
    case v1::DataSpec::kMemory:
    case v1::DataSpec::STRATEGY_NOT_SET:
      break;
  }
  return strategy::MemoryOptions{};
}

}  // namespace hearth::server
