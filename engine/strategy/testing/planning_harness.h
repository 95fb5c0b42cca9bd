#ifndef HEARTH_ENGINE_STRATEGY_TESTING_PLANNING_HARNESS_H_
#define HEARTH_ENGINE_STRATEGY_TESTING_PLANNING_HARNESS_H_

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pass_sequence.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {

/// The outcome of a pass.
struct Outcome {
  absl::Status status;
  std::vector<std::string> batches;
  PassReport report;
};

/// Base of tests of strategies that make plans: a planted graph of 300 nodes
/// with rows of 148 bytes, and files that can be made to fail.
class PlanningHarness : public ::testing::Test {
 protected:
  static constexpr int64_t kRowBytes = 37 * 4;

  static const store::Dataset& Dataset() {
    static const store::Dataset& dataset = []() -> store::Dataset& {
      const auto path = hearth::testing::ImportPlantedGraph(
          {.num_nodes = 300, .feature_dim = 37},
          ::testing::TempDir() + "planning");
      EXPECT_TRUE(path.ok()) << path.status();
      return std::ref(
          *store::Dataset::Open(io::FileSystem::Posix(), *path)->release());
    }();
    return dataset;
  }

  std::unique_ptr<Strategy> Make(const StrategyOptions& options,
                                 const PipelineOptions& pipeline = {}) {
    auto strategy = NewStrategy(options, pipeline, Dataset(),
                                {.read_queues = *queues_,
                                 .clock = clock_,
                                 .scratch_folder = scratch_.Path("scratch"),
                                 .plans = plans_.get(),
                                 .files = faulty_,
                                 .gpu = gpu_});
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  // 12 batches, 180 seeds.
  Pass MakePass(uint64_t epoch_key, int64_t first_batch = 0) const {
    return {.order = train_.get(),
            .sampler = {.fanouts = {3, 2}, .data_seed = 3},
            .batch_size = 16,
            .epoch_key = epoch_key,
            .first_batch = first_batch};
  }

  // Two epochs and validation.
  std::vector<Pass> Passes() const {
    Pass valid = MakePass(1000);
    valid.order = valid_.get();
    return {MakePass(0), MakePass(1), valid};
  }

  absl::Status Prepare(Strategy& strategy, std::stop_token stop = {}) {
    return PrepareFor(strategy, Passes(), std::move(stop));
  }

  absl::Status PrepareFor(Strategy& strategy, const PassSequence& sequence,
                          std::stop_token stop = {}) {
    log_.clear();
    return strategy.Prepare(sequence, Listener(), std::move(stop)).status();
  }

  PreparationListener Listener() {
    return {.log = [&](const std::string& line) { log_ += line + "\n"; },
            .progress = nullptr,
            .durable = nullptr};
  }

  static Outcome Run(Strategy& strategy, const Pass& pass,
                     std::stop_token stop = {}) {
    Outcome outcome;
    outcome.status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          outcome.batches.push_back(
              hearth::testing::Fingerprint(shards.front()));
          return absl::OkStatus();
        },
        std::move(stop), outcome.report);
    EXPECT_EQ(outcome.report.batches, std::ssize(outcome.batches));
    return outcome;
  }

  // The same with rows that stay on the GPU.
  static Outcome RunOnGpu(Strategy& strategy, const Pass& pass,
                          absl::Span<hearth::testing::ModelOnFake> models) {
    Outcome outcome;
    outcome.status = hearth::testing::RunOnGpu(strategy, pass, models,
                                               outcome.batches, outcome.report);
    return outcome;
  }

  // The batches that `memory` delivers.
  std::vector<std::string> Expected(const Pass& pass) {
    return Run(*Make(MemoryOptions{}), pass).batches;
  }

  // Expects that all passes deliver the batches of `memory`.
  void ExpectAllPasses(Strategy& strategy) {
    for (const Pass& pass : Passes()) {
      const Outcome outcome = Run(strategy, pass);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.batches, Expected(pass));
    }
  }

  // The folder of the only plan.
  std::string PlanFolder() const {
    const auto names = io::FileSystem::Posix().List(plans_folder_);
    EXPECT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(names->size(), 1u);
    return io::JoinPath(plans_folder_, names->front());
  }

  // The plan's files by name, without those that contain times.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    const std::string folder = PlanFolder();
    const auto names = io::FileSystem::Posix().List(folder);
    EXPECT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      std::ifstream file(io::JoinPath(folder, name), std::ios::binary);
      files[name] = {std::istreambuf_iterator<char>(file), {}};
    }
    files.erase("about.json");
    files.erase("last_use");
    return files;
  }

  // Number of calls so far that open a file for reading or read.
  int64_t ReadsSoFar() const {
    const std::vector<io::FaultyFileSystem::Call> calls = faulty_.calls();
    return std::count_if(calls.begin(), calls.end(),
                         [](const io::FaultyFileSystem::Call& call) {
                           return call.operation == io::Operation::kRead;
                         });
  }

  // Changes a byte in the middle of a file of the plan.
  void Damage(const std::string& name) const {
    std::fstream file(io::JoinPath(PlanFolder(), name),
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(0, std::ios::end);
    const auto middle = file.tellg() / 2;
    file.seekg(middle);
    const int byte = file.get();
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::unique_ptr<sample::SeedOrder> train_ =
      sample::NewShuffledOrder(Dataset().LoadSplit()->train, 3);
  const std::unique_ptr<sample::SeedOrder> valid_ =
      sample::NewSequentialOrder(Dataset().LoadSplit()->valid);
  const io::ScratchDirectory scratch_;
  const std::string plans_folder_ = scratch_.Path("plans");
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  const std::unique_ptr<io::ReadQueues> queues_ =
      *io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads});
  hearth::testing::StoppingClock clock_;
  std::unique_ptr<plan::PlanStore> plans_ = std::make_unique<plan::PlanStore>(
      faulty_, clock_, plan::PlanStore::Options{.folder = plans_folder_});
  Gpu gpu_;
  // The log of the last preparation.
  std::string log_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_TESTING_PLANNING_HARNESS_H_
