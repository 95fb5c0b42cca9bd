// Reads a second from features in stripes over one disk, two and more, each of
// which answers after 2 ms and serves four reads at a time: 2,000 a second.
//
//   stripe_benchmark DATASET_FOLDER

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

constexpr int kMostDisks = 4;
constexpr int kReadsAtATime = 4;
constexpr absl::Duration kDelay = absl::Milliseconds(2);
// Seeds of the epoch, at most: some 25,000 reads.
constexpr size_t kSeeds = 1024;

// The places of a disk's reads. Thread-safe.
class Places {
 public:
  void Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (free_ == 0) changed_.Wait(&mutex_);
    --free_;
  }
  void Return() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++free_;
    changed_.Signal();
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  int free_ ABSL_GUARDED_BY(mutex_) = kReadsAtATime;
};

class SlowDevice final : public io::InterceptingDevice {
 public:
  SlowDevice(std::unique_ptr<io::BlockDevice> base, Places& places)
      : InterceptingDevice(std::move(base)), places_(places) {}

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    places_.Take();
    absl::SleepFor(kDelay);
    const ssize_t count = base().ReadOnce(offset, out);
    places_.Return();
    return count;
  }

 private:
  Places& places_;
};

// Files below "disk0", "disk1", ... of a folder are on slow disks.
class SlowDisks final : public io::ForwardingFileSystem {
 public:
  SlowDisks() : ForwardingFileSystem(io::FileSystem::Posix()) {}

  absl::StatusOr<std::unique_ptr<io::BlockDevice>> OpenBlockDevice(
      const std::string& path, const io::BlockDeviceOptions& options) override {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<io::BlockDevice> device,
        ForwardingFileSystem::OpenBlockDevice(path, options));
    for (int disk = 0; disk < kMostDisks; ++disk) {
      if (!absl::StrContains(path, absl::StrCat("/disk", disk, "/"))) continue;
      return std::make_unique<SlowDevice>(std::move(device), places_[disk]);
    }
    return device;
  }

 private:
  Places places_[kMostDisks];
};

class Benchmark {
 public:
  explicit Benchmark(const store::Dataset& dataset) : dataset_(dataset) {}
  ~Benchmark() { std::filesystem::remove_all(folder_); }

  absl::Status Run() {
    // A queue of threads: each blocks for its own slow read.
    HEARTH_ASSIGN_OR_RETURN(
        queues_, io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads}));
    HEARTH_ASSIGN_OR_RETURN(store::Split split, dataset_.LoadSplit());
    if (split.train.size() > kSeeds) split.train.resize(kSeeds);
    order_ = sample::NewShuffledOrder(split.train, 1);
    std::printf("%6s %14s %10s %10s %8s %14s\n", "disks", "target reads",
                "depth", "reads/s", "of peak", "batches merged");
    for (int disks = 1; disks <= kMostDisks; ++disks) {
      HEARTH_ASSIGN_OR_RETURN(const PassReport report, Read(disks));
      const double rate =
          static_cast<double>(*report.read_ops) / report.seconds;
      const double peak = disks * kReadsAtATime / absl::ToDoubleSeconds(kDelay);
      std::printf("%6d %14ld %10ld %10.0f %7.0f%% %14.1f\n", disks,
                  static_cast<long>(report.overlap->target_reads),
                  static_cast<long>(report.overlap->depth), rate,
                  100 * rate / peak,
                  static_cast<double>(report.overlap->merged) /
                      static_cast<double>(report.overlap->batches));
    }
    return absl::OkStatus();
  }

 private:
  // An epoch without caches.
  absl::StatusOr<PassReport> Read(int num_disks) {
    std::vector<std::unique_ptr<plan::PlanStore>> stores;
    std::vector<plan::PlanStore*> disks;
    for (int disk = 0; disk < num_disks; ++disk) {
      stores.push_back(std::make_unique<plan::PlanStore>(
          files_, Clock::Real(),
          plan::PlanStore::Options{.folder =
                                       folder_ / absl::StrCat("disk", disk)}));
      disks.push_back(stores.back().get());
    }
    std::filesystem::create_directories(folder_);
    const Pass pass = hearth::testing::Measured(
        dataset_, {.order = order_.get(),
                   .sampler = {.fanouts = {5, 5}, .data_seed = 1},
                   .batch_size = 32});
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<Strategy> strategy,
        NewGidsStrategy(
            {.cpu_cache_bytes = 0, .window_cache_bytes = 0, .striped = true},
            {.samplers = 2}, dataset_,
            {.read_queues = *queues_,
             .clock = Clock::Real(),
             .scratch_folder = (folder_ / "scratch").string(),
             .data_disks = disks,
             .files = files_}));
    HEARTH_RETURN_IF_ERROR(strategy->Prepare({pass}, {}, {}).status());
    PassReport report;
    HEARTH_RETURN_IF_ERROR(strategy->Run(
        pass,
        [](absl::Span<const train::BatchView> /*shards*/) {
          return absl::OkStatus();
        },
        {}, report));
    return report;
  }

  const store::Dataset& dataset_;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / "stripe_benchmark";
  SlowDisks files_;
  std::unique_ptr<io::ReadQueues> queues_;
  std::unique_ptr<sample::SeedOrder> order_;
};

absl::Status Main(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          store::Dataset::Open(io::FileSystem::Posix(), path));
  return Benchmark(*dataset).Run();
}

}  // namespace
}  // namespace hearth::strategy

int main(int argc, char** argv) {
  const absl::Status status = hearth::strategy::Main(argc == 2 ? argv[1] : "");
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return EXIT_FAILURE;
}
