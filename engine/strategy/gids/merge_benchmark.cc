// Gain of reading several batches at a time on a disk that answers late (GIDS,
// section 4.3): each read of the features takes 2 ms longer.
//
//   merge_benchmark DATASET_FOLDER

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/read_probe.h"
#include "engine/io/read_queue.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

constexpr absl::Duration kDelay = absl::Milliseconds(2);

class Benchmark {
 public:
  explicit Benchmark(const store::Dataset& dataset)
      : slow_(dataset),
        folder_(std::filesystem::temp_directory_path() / "gids_benchmark"),
        plans_(io::FileSystem::Posix(), Clock::Real(),
               {.folder = folder_.string()}) {
    slow_.SetHook([](int64_t /*attempt*/) {
      absl::SleepFor(kDelay);
      return 0;
    });
  }
  ~Benchmark() { std::filesystem::remove_all(folder_); }

  absl::Status Run() {
    // A queue of threads: each blocks for its own slow read.
    HEARTH_ASSIGN_OR_RETURN(
        queues_, io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads}));
    HEARTH_ASSIGN_OR_RETURN(const store::Split split, slow_.LoadSplit(0));
    order_ = sample::NewShuffledOrder(split.train, 1);
    HEARTH_ASSIGN_OR_RETURN(const store::StoredFeatures features,
                            slow_.OpenFeatures({}, 0));
    HEARTH_ASSIGN_OR_RETURN(
        const io::ReadProfile disk,
        io::ProbeReads(features.LargestFile(), *queues_, Clock::Real(),
                       features.layout.row_bytes, /*depth=*/0, {}));
    std::printf(
        "%.0f reads/s at depth %zu, first after %.2f ms, last after %.2f ms: "
        "%ld reads are to overlap\n",
        disk.peak_reads_per_second, disk.depth, 1e3 * disk.first_seconds,
        1e3 * disk.last_seconds, static_cast<long>(OverlappingReads(disk)));
    std::printf("%10s %12s %14s %14s %8s %10s %8s\n", "batch size",
                "reads/batch", "one, reads/s", "merged, reads/s", "of peak",
                "gain", "formula");
    for (const int64_t batch_size : {32, 64, 128}) {
      HEARTH_ASSIGN_OR_RETURN(const PassReport one, Read(batch_size, 1));
      HEARTH_ASSIGN_OR_RETURN(const PassReport merged, Read(batch_size, 32));
      const double m =
          static_cast<double>(*one.read_ops) / static_cast<double>(one.batches);
      const double waits =
          disk.peak_reads_per_second * (disk.first_seconds + disk.last_seconds);
      std::printf("%10ld %12.1f %14.0f %14.0f %7.0f%% %9.2fx %7.2fx\n",
                  static_cast<long>(batch_size), m, Rate(one), Rate(merged),
                  100 * Rate(merged) / disk.peak_reads_per_second,
                  Rate(merged) / Rate(one), 0.95 * (m + waits) / m);
    }
    return absl::OkStatus();
  }

 private:
  static double Rate(const PassReport& report) {
    return static_cast<double>(*report.read_ops) / report.seconds;
  }

  // An epoch whose caches are warm.
  absl::StatusOr<PassReport> Read(int64_t batch_size, int64_t merge_max) {
    const Pass pass = hearth::testing::Measured(
        slow_, {.order = order_.get(),
                .sampler = {.fanouts = {5, 5}, .data_seed = 1},
                .batch_size = batch_size});
    GidsOptions options;
    options.merge_max = merge_max;
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy,
                            NewGidsStrategy(options, {.samplers = 2}, slow_,
                                            {.read_queues = *queues_,
                                             .clock = Clock::Real(),
                                             .scratch_folder = folder_.string(),
                                             .plans = &plans_}));
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

  hearth::testing::HookedDataset slow_;
  const std::filesystem::path folder_;
  plan::PlanStore plans_;
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
