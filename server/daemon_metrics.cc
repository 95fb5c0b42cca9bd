#include "server/daemon_metrics.h"

#include <map>

#include "absl/strings/ascii.h"
#include "engine/base/process_memory.h"
#include "engine/base/version.h"

namespace hearth::server {
namespace {

using metrics::Gauge;

class DaemonMetricsImpl final : public DaemonMetrics {
 public:
  DaemonMetricsImpl(metrics::Registry& registry, JobStore& store,
                    io::FileSystem& files, const DataDir& data_dir,
                    const std::string& torch_version)
      : registry_(registry), store_(store), files_(files), data_dir_(data_dir) {
    build_info_ = registry.NewGauge(
        "hearth_build_info", "Always 1; the labels tell what runs.",
        {{"version", kVersion}, {"torch", torch_version}});
    build_info_->Set(1);
    anonymous_ = NewMemoryGauge("anonymous");
    shared_ = NewMemoryGauge("shared");
    free_ = registry.NewGauge(
        "hearth_data_dir_free_bytes",
        "Bytes free on the file system of the data directory.", {});
    hook_ = registry.NewCollectHook([this] { Update(); });
  }

 private:
  std::unique_ptr<Gauge> NewMemoryGauge(const std::string& kind) {
    return registry_.NewGauge(
        "hearth_process_memory_bytes",
        "Resident memory that the daemon owns; pages of files are not.",
        {{"kind", kind}});
  }

  // Called by the hook, one collection at a time.
  void Update() {
    const ProcessMemory memory = ReadProcessMemory();
    anonymous_->Set(static_cast<double>(memory.anonymous_bytes));
    shared_->Set(static_cast<double>(memory.shared_bytes));
    if (const auto free = files_.FreeBytes(data_dir_.path()); free.ok()) {
      free_->Set(static_cast<double>(*free));
    }
    const auto counts = store_.CountByState();
    if (!counts.ok()) return;
    for (const auto& [state, count] : *counts) {
      std::unique_ptr<Gauge>& gauge = jobs_[state];
      if (gauge == nullptr) {
        gauge = registry_.NewGauge(
            "hearth_jobs", "Jobs in each state.",
            {{"state", absl::AsciiStrToLower(v1::JobState_Name(state))}});
      }
      gauge->Set(static_cast<double>(count));
    }
  }

  metrics::Registry& registry_;
  JobStore& store_;
  io::FileSystem& files_;
  const DataDir& data_dir_;
  std::unique_ptr<Gauge> build_info_;
  std::unique_ptr<Gauge> anonymous_;
  std::unique_ptr<Gauge> shared_;
  std::unique_ptr<Gauge> free_;
  std::map<v1::JobState, std::unique_ptr<Gauge>> jobs_;
  // Last: goes first, so that nothing is updated that is gone.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

std::unique_ptr<DaemonMetrics> NewDaemonMetrics(
    metrics::Registry& registry, JobStore& store, io::FileSystem& files,
    const DataDir& data_dir, const std::string& torch_version) {
  return std::make_unique<DaemonMetricsImpl>(registry, store, files, data_dir,
                                             torch_version);
}

}  // namespace hearth::server
