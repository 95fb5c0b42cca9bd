#include "server/mapping/strategy_mapping.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

constexpr uint64_t kDefaultCpuCacheBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBudgetBytes = uint64_t{1} << 50;
constexpr uint32_t kDefaultSampleQueue = 6;
constexpr uint32_t kDefaultTrainQueue = 4;
constexpr uint32_t kMaxQueue = 1024;
constexpr uint32_t kMaxSuperbatch = 1 << 20;
constexpr uint64_t kDefaultPrepareBytes = uint64_t{1} << 30;
constexpr uint64_t kMinPrepareBytes = uint64_t{16} << 20;
constexpr double kMaxDiskLimitRatio = 1e6;

void CheckBudgets(v1::Budgets& budgets, FieldViolations& violations) {
  if (!budgets.has_cpu_cache_bytes()) {
    budgets.set_cpu_cache_bytes(kDefaultCpuCacheBytes);
  }
  violations.CheckAtMost("train.data.budgets.cpu_cache_bytes",
                         budgets.cpu_cache_bytes(), kMaxBudgetBytes);
  violations.CheckAtMost("train.data.budgets.staging_bytes",
                         budgets.staging_bytes(), kMaxBudgetBytes);
}

void CheckNoGpu(const v1::DataSpec& data, const char* why,
                FieldViolations& violations) {
  if (data.budgets().gpu_cache_bytes() == 0) return;
  violations.Add("train.data.budgets.gpu_cache_bytes",
                 absl::StrCat("must be 0: ", why));
}

void CheckNoStaging(const v1::DataSpec& data, const char* strategy,
                    FieldViolations& violations) {
  if (data.budgets().staging_bytes() == 0) return;
  violations.Add(
      "train.data.budgets.staging_bytes",
      absl::StrCat("must be 0: strategy ", strategy, " reserves no rows"));
}

void CheckGnndrive(v1::GnndriveStrategy& gnndrive,
                   FieldViolations& violations) {
  if (gnndrive.sample_queue() == 0) {
    gnndrive.set_sample_queue(kDefaultSampleQueue);
  }
  if (gnndrive.train_queue() == 0) gnndrive.set_train_queue(kDefaultTrainQueue);
  violations.CheckAtMost("train.data.gnndrive.sample_queue",
                         gnndrive.sample_queue(), kMaxQueue);
  violations.CheckAtMost("train.data.gnndrive.train_queue",
                         gnndrive.train_queue(), kMaxQueue);
}

void CheckGinex(const v1::DataSpec& data, FieldViolations& violations) {
  violations.CheckAtMost("train.data.ginex.superbatch",
                         data.ginex().superbatch(), kMaxSuperbatch);
  violations.CheckAtMost("train.data.ginex.neighbor_cache_bytes",
                         data.ginex().neighbor_cache_bytes(), kMaxBudgetBytes);
  CheckNoStaging(data, "ginex", violations);
}

void CheckDiskgnn(v1::DataSpec& data, FieldViolations& violations) {
  v1::DiskgnnStrategy& diskgnn = *data.mutable_diskgnn();
  if (diskgnn.prepare_memory_bytes() == 0) {
    diskgnn.set_prepare_memory_bytes(kDefaultPrepareBytes);
  }
  if (diskgnn.prepare_memory_bytes() < kMinPrepareBytes) {
    violations.Add("train.data.diskgnn.prepare_memory_bytes",
                   absl::StrCat("must be at least ", kMinPrepareBytes, ", not ",
                                diskgnn.prepare_memory_bytes()));
  }
  for (const auto& [field, value] :
       {std::pair{"train.data.diskgnn.disk_cache_bytes",
                  diskgnn.disk_cache_bytes()},
        {"train.data.diskgnn.disk_limit_bytes", diskgnn.disk_limit_bytes()},
        {"train.data.diskgnn.prepare_memory_bytes",
         diskgnn.prepare_memory_bytes()}}) {
    violations.CheckAtMost(field, value, kMaxBudgetBytes);
  }
  const double ratio = diskgnn.disk_limit_ratio();
  if (diskgnn.has_disk_limit_ratio() &&
      !(ratio > 0 && ratio <= kMaxDiskLimitRatio)) {
    violations.Add("train.data.diskgnn.disk_limit_ratio",
                   absl::StrCat("must be above 0 and at most ",
                                kMaxDiskLimitRatio, ", not ", ratio));
  }
  CheckNoStaging(data, "diskgnn", violations);
}

strategy::DiskgnnOptions ToDiskgnnOptions(const v1::DataSpec& data,
                                          int io_depth) {
  const v1::DiskgnnStrategy& diskgnn = data.diskgnn();
  strategy::DiskgnnOptions options;
  options.cpu_cache_bytes = data.budgets().cpu_cache_bytes();
  options.gpu_cache_bytes = data.budgets().gpu_cache_bytes();
  if (diskgnn.has_disk_cache_bytes()) {
    options.disk_cache_bytes = diskgnn.disk_cache_bytes();
  }
  options.disk_limit_bytes = diskgnn.disk_limit_bytes();
  options.disk_limit_ratio = diskgnn.disk_limit_ratio();
  options.prepare_memory_bytes = diskgnn.prepare_memory_bytes();
  options.io_depth = io_depth;
  return options;
}

}  // namespace

void CheckStrategy(bool has_gpu, v1::DataSpec& data,
                   FieldViolations& violations) {
  if (!data.has_diskgnn()) {
    CheckNoGpu(data, "only strategy diskgnn has a GPU cache", violations);
  } else if (!has_gpu) {
    CheckNoGpu(data, "this daemon uses no GPU", violations);
  }
  switch (data.strategy_case()) {
    case v1::DataSpec::STRATEGY_NOT_SET:
      violations.Add("train.data.strategy",
                     "must be one of memory, mmap, gnndrive, ginex, diskgnn");
      break;
    case v1::DataSpec::kMemory:
    case v1::DataSpec::kMmap:
      if (data.has_budgets()) {
        violations.Add("train.data.budgets",
                       "must be absent: strategies memory and mmap have none");
      }
      break;
    case v1::DataSpec::kGnndrive:
      CheckBudgets(*data.mutable_budgets(), violations);
      CheckGnndrive(*data.mutable_gnndrive(), violations);
      break;
    case v1::DataSpec::kGinex:
      CheckBudgets(*data.mutable_budgets(), violations);
      CheckGinex(data, violations);
      break;
    case v1::DataSpec::kDiskgnn:
      CheckBudgets(*data.mutable_budgets(), violations);
      CheckDiskgnn(data, violations);
      break;
  }
}

bool MakesPlans(const v1::DataSpec& data) { return data.has_diskgnn(); }

uint32_t DefaultExtractors(const v1::DataSpec& data) {
  return data.has_gnndrive() ? 2 : 1;
}

strategy::StrategyOptions ToStrategyOptions(const v1::DataSpec& data,
                                            const v1::PipelineSpec& pipeline) {
  const int io_depth = static_cast<int>(pipeline.io_depth());
  switch (data.strategy_case()) {
    case v1::DataSpec::kMmap:
      return strategy::MmapOptions{.read_ahead = data.mmap().read_ahead()};
    case v1::DataSpec::kGnndrive:
      return strategy::GnndriveOptions{
          .cpu_cache_bytes = data.budgets().cpu_cache_bytes(),
          .staging_bytes = data.budgets().staging_bytes(),
          .reorder = data.gnndrive().reorder(),
          .buffered_reads = data.gnndrive().buffered_reads(),
          .sample_queue = static_cast<int>(data.gnndrive().sample_queue()),
          .train_queue = static_cast<int>(data.gnndrive().train_queue()),
          .io_depth = io_depth};
    case v1::DataSpec::kGinex:
      return strategy::GinexOptions{
          .cpu_cache_bytes = data.budgets().cpu_cache_bytes(),
          .neighbor_cache_bytes = data.ginex().neighbor_cache_bytes(),
          .superbatch = data.ginex().superbatch(),
          .io_depth = io_depth};
    case v1::DataSpec::kDiskgnn:
      return ToDiskgnnOptions(data, io_depth);
    case v1::DataSpec::kMemory:
    case v1::DataSpec::STRATEGY_NOT_SET:
      break;
  }
  return strategy::MemoryOptions{};
}

}  // namespace hearth::server
