// Measures how much faster the pipeline of a pass is than its steps one after
// the other, and how fast packs are read, on the dataset in
// HEARTH_BENCHMARK_DATASET:
//   HEARTH_BENCHMARK_DATASET=FOLDER bazel run
//   //engine/strategy/diskgnn:pass_benchmark
// The plan, all of it packed, is made in HEARTH_BENCHMARK_FOLDER (default: the
// working directory) and stays there. The trainer waits as long as a batch
// takes to be read, so that it asks nothing of the processors.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/row_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {
namespace {

io::FileSystem& Posix() { return io::FileSystem::Posix(); }

/// One epoch, prepared.
class Epoch {
 public:
  static absl::StatusOr<std::unique_ptr<Epoch>> Open(const char* dataset) {
    std::unique_ptr<Epoch> epoch(new Epoch());
    HEARTH_ASSIGN_OR_RETURN(epoch->dataset_,
                            store::Dataset::Open(Posix(), dataset));
    HEARTH_ASSIGN_OR_RETURN(epoch->labels_, epoch->dataset_->LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(epoch->features_,
                            epoch->dataset_->OpenFeatures({}));
    HEARTH_ASSIGN_OR_RETURN(store::Split split, epoch->dataset_->LoadSplit());
    epoch->order_ = sample::NewShuffledOrder(std::move(split.train), 1);
    epoch->seeds_ = epoch->order_->Epoch(0);
    epoch->pass_.order = epoch->order_.get();
    HEARTH_ASSIGN_OR_RETURN(epoch->queues_, io::ReadQueues::Create());
    HEARTH_RETURN_IF_ERROR(epoch->Prepare());
    return epoch;
  }

  /// Seconds of the pass with all stages at work; calls `trainer` after each
  /// batch.
  absl::StatusOr<double> Pipelined(absl::Duration trainer, double& idle) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<DiskgnnPass> run,
        DiskgnnPass::Make({.plan = *opened_->plan,
                           .labels = *labels_,
                           .format = format(),
                           .read_queues = *queues_,
                           .clock = Clock::Real(),
                           .inputs = inputs_,
                           .reads = reads_},
                          pass_, seeds_, opened_->plan->identity().passes[0]));
    PassReport report;
    HEARTH_RETURN_IF_ERROR(run->Run(
        [&](absl::Span<const train::BatchView>) {
          absl::SleepFor(trainer);
          return absl::OkStatus();
        },
        {}, report));
    idle = report.stages.back().starved_seconds / report.seconds;
    return report.seconds;
  }

  /// Seconds of the pass with its steps one after the other. `reading` gets the
  /// seconds of the steps before the trainer's.
  absl::StatusOr<double> InTurn(absl::Duration trainer, double& reading) {
    const Clock& clock = Clock::Real();
    const double start = clock.SteadySeconds();
    reading = 0;
    for (int64_t batch = 0; batch < num_batches(); ++batch) {
      const double begin = clock.SteadySeconds();
      HEARTH_RETURN_IF_ERROR(Bring(batch));
      reading += clock.SteadySeconds() - begin;
      absl::SleepFor(trainer);
    }
    return clock.SteadySeconds() - start;
  }

  int64_t num_batches() const {
    return opened_->plan->identity().passes[0].count;
  }
  /// Bytes of the chunks that a pass reads.
  uint64_t bytes() const { return opened_->plan->layout().packs_bytes(); }

 private:
  Epoch() = default;

  store::RowFormat format() const {
    return {.dim = features_->dim, .dtype = features_->dtype};
  }

  absl::Status Prepare() {
    const char* folder = std::getenv("HEARTH_BENCHMARK_FOLDER");
    plans_ = std::make_unique<plan::PlanStore>(
        Posix(), Clock::Real(),
        plan::PlanStore::Options{
            .folder = io::JoinPath(folder != nullptr ? folder : ".", "plans")});
    const DiskgnnOptions options = {.disk_cache_bytes = 0};
    const PreparationListener listener;
    const PreparationContext context = {
        .dataset = *dataset_,
        .labels = *labels_,
        .features = *features_,
        .files = Posix(),
        .clock = Clock::Real(),
        .options = options,
        .placement = {.format = format(), .gpu = {}},
        .plans = *plans_,
        .listener = listener,
        .stop = {}};
    Preparation preparation(context, {&pass_, 1});
    HEARTH_ASSIGN_OR_RETURN(Preparation::Opened opened, preparation.Open());
    opened_ = std::make_unique<Preparation::Opened>(std::move(opened));
    return absl::OkStatus();
  }

  // Graph loader, feature loader and assembler for one batch.
  absl::Status Bring(int64_t batch) {
    OpenPlan& plan = *opened_->plan;
    HEARTH_RETURN_IF_ERROR(
        buffer_.Resize(std::max(plan.chunks().sample_buffer_bytes(),
                                plan.chunks().features_buffer_bytes())));
    const absl::Span<std::byte> bytes(buffer_.data(), buffer_.size());
    HEARTH_ASSIGN_OR_RETURN(
        const sample::MiniBatch sample,
        plan.chunks().ReadSample(batch, KeyOfShard(pass_, batch), bytes));
    benchmark::DoNotOptimize(labels_->Gather(ShardSeeds(pass_, seeds_, batch)));
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const std::byte> packed,
                            plan.chunks().ReadFeatures(batch, bytes, table_));
    HEARTH_RETURN_IF_ERROR(rows_.Resize(sample.input_nodes.size() *
                                        static_cast<size_t>(features_->dim) *
                                        sizeof(float)));
    return plan.assembler().Assemble(
        {.table = table_, .disk = {}, .packed = packed}, *team_,
        reinterpret_cast<float*>(rows_.data()));
  }

  const std::unique_ptr<ThreadTeam> team_ = *ThreadTeam::Create(1);
  std::unique_ptr<store::Dataset> dataset_;
  std::optional<store::Labels> labels_;
  std::optional<store::StoredFeatures> features_;
  std::unique_ptr<sample::SeedOrder> order_;
  std::vector<store::NodeId> seeds_;
  Pass pass_ = {.sampler = {.fanouts = {10, 10, 10}, .data_seed = 1},
                .batch_size = 1024};
  std::unique_ptr<io::ReadQueues> queues_;
  std::unique_ptr<plan::PlanStore> plans_;
  std::unique_ptr<Preparation::Opened> opened_;
  BufferPool inputs_;
  BufferPool reads_;
  cache::AlignedBuffer buffer_;
  cache::AlignedBuffer rows_;
  AddressTable table_;
};

// Null without a dataset; the benchmark is then skipped.
Epoch* TheEpoch(benchmark::State& state) {
  static Epoch* const epoch = [&]() -> Epoch* {
    const char* dataset = std::getenv("HEARTH_BENCHMARK_DATASET");
    if (dataset == nullptr) {
      state.SkipWithError("HEARTH_BENCHMARK_DATASET names no dataset");
      return nullptr;
    }
    auto opened = Epoch::Open(dataset);
    if (!opened.ok()) {
      state.SkipWithError(std::string(opened.status().message()).c_str());
      return nullptr;
    }
    return opened->release();
  }();
  return epoch;
}

// Both in one iteration, so that their ratio is measured within a minute.
void BM_PipelinedAgainstInTurn(benchmark::State& state) {
  Epoch* const epoch = TheEpoch(state);
  if (epoch == nullptr) return;
  double in_turn = 0;
  double pipelined = 0;
  double idle = 0;
  for (auto _ : state) {
    double reading = 0;
    if (!epoch->InTurn(absl::ZeroDuration(), reading).ok()) {
      state.SkipWithError("reading failed");
      return;
    }
    const absl::Duration trainer =
        absl::Seconds(reading / static_cast<double>(epoch->num_batches()));
    const auto one = epoch->InTurn(trainer, reading);
    const auto other = epoch->Pipelined(trainer, idle);
    if (!one.ok() || !other.ok()) {
      state.SkipWithError("a pass failed");
      return;
    }
    in_turn += *one;
    pipelined += *other;
  }
  state.counters["speedup"] = in_turn / pipelined;
  state.counters["trainer_idle"] = idle;
  state.counters["seconds_in_turn"] =
      in_turn / static_cast<double>(state.iterations());
}

BENCHMARK(BM_PipelinedAgainstInTurn)->Iterations(3)->UseRealTime();

// A trainer that takes no time: the rate of reading and assembling together.
void BM_ReadAndAssemble(benchmark::State& state) {
  Epoch* const epoch = TheEpoch(state);
  if (epoch == nullptr) return;
  for (auto _ : state) {
    double idle = 0;
    if (!epoch->Pipelined(absl::ZeroDuration(), idle).ok()) {
      state.SkipWithError("a pass failed");
      return;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(epoch->bytes()) *
                          static_cast<int64_t>(state.iterations()));
}

BENCHMARK(BM_ReadAndAssemble)->Iterations(3)->UseRealTime();

}  // namespace
}  // namespace hearth::strategy

BENCHMARK_MAIN();
