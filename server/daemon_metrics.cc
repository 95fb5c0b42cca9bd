#include "server/daemon_metrics.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "engine/base/process_memory.h"
#include "engine/base/version.h"
#include "engine/train/model_options.h"

namespace hearth::server {
namespace {

using metrics::Gauge;

class DaemonMetricsImpl final : public DaemonMetrics {
 public:
  DaemonMetricsImpl(const DaemonMetricsParts& parts,
                    const std::string& torch_version)
      : parts_(parts) {
    metrics::Registry& registry = parts.registry;
    build_info_ = registry.NewGauge(
        "hearth_build_info", "Always 1; the labels tell what runs.",
        {{"version", kVersion}, {"torch", torch_version}});
    build_info_->Set(1);
    anonymous_ = NewMemoryGauge("anonymous");
    shared_ = NewMemoryGauge("shared");
    free_ = registry.NewGauge(
        "hearth_data_dir_free_bytes",
        "Bytes free on the file system of the data directory.", {});
    limit_ = registry.NewGauge("hearth_memory_limit_bytes",
                               "What jobs may take together.", {});
    limit_->Set(static_cast<double>(parts.memory.limit_bytes()));
    plan_bytes_ =
        registry.NewGauge("hearth_plan_bytes", "What plans take on disk.", {});
    for (const std::string& folder : parts.data_disks.folders()) {
      data_disks_.push_back(
          {.free = registry.NewGauge(
               "hearth_data_disk_free_bytes",
               "Bytes free on the file system of a --data-disk.",
               {{"folder", folder}}),
           .plans = registry.NewGauge("hearth_data_disk_plan_bytes",
                                      "What plans take on a --data-disk.",
                                      {{"folder", folder}})});
    }
    queue_seconds_ = registry.NewGauge(
        "hearth_queue_longest_seconds",
        "Seconds that the job has been queued, or has waited, that has been so "
        "longest; 0 = none is.",
        {});
    hook_ = registry.NewCollectHook([this] { Update(); });
  }

 private:
  std::unique_ptr<Gauge> NewMemoryGauge(const std::string& kind) {
    return parts_.registry.NewGauge(
        "hearth_process_memory_bytes",
        "Resident memory that the daemon owns; pages of files are not.",
        {{"kind", kind}});
  }

  // Called by the hook, one collection at a time.
  void Update() {
    const ProcessMemory memory = ReadProcessMemory();
    anonymous_->Set(static_cast<double>(memory.anonymous_bytes));
    shared_->Set(static_cast<double>(memory.shared_bytes));
    if (const auto free = parts_.files.FreeBytes(parts_.data_dir.path());
        free.ok()) {
      free_->Set(static_cast<double>(*free));
    }
    if (const auto bytes = parts_.plans.TotalBytes(); bytes.ok()) {
      plan_bytes_->Set(static_cast<double>(*bytes));
    }
    for (size_t i = 0; i < data_disks_.size(); ++i) {
      plan::PlanStore& store = *parts_.data_disks.stores()[i];
      if (const auto free = parts_.files.FreeBytes(store.options().folder);
          free.ok()) {
        data_disks_[i].free->Set(static_cast<double>(*free));
      }
      if (const auto bytes = store.TotalBytes(); bytes.ok()) {
        data_disks_[i].plans->Set(static_cast<double>(*bytes));
      }
    }
    queue_seconds_->Set(parts_.scheduler.LongestQueueSeconds());
    for (const auto& [owner, bytes] : parts_.memory.BytesByOwner()) {
      std::unique_ptr<Gauge>& gauge = reserved_[owner];
      if (gauge == nullptr) {
        gauge = parts_.registry.NewGauge("hearth_memory_reserved_bytes",
                                         "Bytes reserved for running jobs and "
                                         "for data that stays warm after "
                                         "them.",
                                         {{"owner", owner}});
      }
      gauge->Set(static_cast<double>(bytes));
    }
    for (const auto& [number, use] : parts_.memory.gpus()) {
      auto& [limit, reserved] = gpus_[number];
      if (limit == nullptr) {
        const metrics::Labels labels = {{"device", train::DeviceName(number)}};
        limit = parts_.registry.NewGauge(
            "hearth_gpu_memory_limit_bytes",
            "Bytes of a GPU's memory that all jobs together may take.", labels);
        reserved =
            parts_.registry.NewGauge("hearth_gpu_memory_reserved_bytes",
                                     "Bytes of a GPU's memory reserved for "
                                     "running jobs and for data that "
                                     "stays warm after them.",
                                     labels);
      }
      limit->Set(static_cast<double>(use.limit_bytes));
      reserved->Set(static_cast<double>(use.taken_bytes));
    }
    const auto counts = parts_.store.CountByState();
    if (!counts.ok()) return;
    for (const auto& [state, count] : *counts) {
      std::unique_ptr<Gauge>& gauge = jobs_[state];
      if (gauge == nullptr) {
        gauge = parts_.registry.NewGauge(
            "hearth_jobs", "Jobs in each state.",
            {{"state", absl::AsciiStrToLower(v1::JobState_Name(state))}});
      }
      gauge->Set(static_cast<double>(count));
    }
  }

  const DaemonMetricsParts parts_;
  std::unique_ptr<Gauge> build_info_;
  std::unique_ptr<Gauge> anonymous_;
  std::unique_ptr<Gauge> shared_;
  std::unique_ptr<Gauge> free_;
  std::unique_ptr<Gauge> limit_;
  std::unique_ptr<Gauge> plan_bytes_;
  struct DataDisk {
    std::unique_ptr<Gauge> free;
    std::unique_ptr<Gauge> plans;
  };
  // In the order of the disks.
  std::vector<DataDisk> data_disks_;
  std::unique_ptr<Gauge> queue_seconds_;
  std::map<std::string, std::unique_ptr<Gauge>> reserved_;
  // By number: the limit, and what is reserved.
  std::map<int, std::pair<std::unique_ptr<Gauge>, std::unique_ptr<Gauge>>>
      gpus_;
  std::map<v1::JobState, std::unique_ptr<Gauge>> jobs_;
  // Last: goes first, so that nothing is updated that is gone.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

std::unique_ptr<DaemonMetrics> NewDaemonMetrics(
    const DaemonMetricsParts& parts, const std::string& torch_version) {
  return std::make_unique<DaemonMetricsImpl>(parts, torch_version);
}

}  // namespace hearth::server
