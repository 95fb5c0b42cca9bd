#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/sample/seed_requests.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/row_codec.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/conformance/suites.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

store::Dataset* planted = nullptr;
// The partition of all planted graphs, which have the same edges.
hearth::testing::PartedPlantedGraph* parted = nullptr;
sample::SeedOrder* shuffled = nullptr;
// The strategy of the running case.
sample::SeedOrder* order = nullptr;
// The fake GPU that samples in the running case.
std::optional<cuda::FakeCuda> fake_gpu;

StrategyResources Resources() {
  static cuda::Device gpu;
  if (fake_gpu.has_value()) gpu = fake_gpu->device();
  static io::ReadQueues& queues = *io::ReadQueues::Create()->release();
  return {.read_queues = queues,
          .clock = Clock::Real(),
          .scratch_folder = ::testing::TempDir() + "scratch",
          .data_disks =
              hearth::testing::DataDisks(::testing::TempDir() + "scratch"),
          .gpus = absl::MakeConstSpan(&gpu, fake_gpu.has_value() ? 1 : 0),
          .partition = parted->partition};
}

// A folder for the running case.
std::string Folder(const std::string& name) {
  std::string test =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');
  return ::testing::TempDir() + "conformance_" + test + "_" + name;
}

Pass MakePass(uint64_t epoch_key, int64_t first_batch = 0) {
  return hearth::testing::Measured(
      *planted, {.order = order,
                 .sampler = {.fanouts = {5, 3}, .data_seed = 3},
                 .batch_size = 50,
                 .epoch_key = epoch_key,
                 .first_batch = first_batch,
                 .batches = {}});
}

// Prepared for all passes that a test may run.
std::unique_ptr<Strategy> Prepared(std::unique_ptr<Strategy> strategy) {
  const std::vector<Pass> passes = {MakePass(0), MakePass(1), MakePass(2)};
  const absl::Status status =
      strategy->Prepare(passes, {}, std::stop_token()).status();
  EXPECT_TRUE(status.ok()) << status;
  return strategy;
}

std::unique_ptr<Strategy> Make(const ConformanceCase& parameters) {
  auto strategy = NewStrategy(parameters.strategy, parameters.pipeline,
                              *planted, Resources());
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return Prepared(*std::move(strategy));
}

std::vector<std::string> Fingerprints(Strategy& strategy, const Pass& pass) {
  std::vector<std::string> result;
  PassReport report;
  const absl::Status status = strategy.Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        result.push_back(hearth::testing::Fingerprint(batch));
        return absl::OkStatus();
      },
      std::stop_token(), report);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(report.batches, static_cast<int64_t>(result.size()));
  return result;
}

// Fingerprints of the batches of two passes that are drawn by `sampler`; the
// first pass begins at `first_batch`.
std::vector<std::string> TwoPasses(
    const ConformanceCase& parameters,
    const sample::NeighborSamplerOptions& sampler, int64_t first_batch = 0) {
  std::vector<Pass> passes = {MakePass(0), MakePass(1)};
  for (Pass& pass : passes) {
    pass.sampler = sampler;
    pass = hearth::testing::Measured(*planted, pass);
  }
  const auto strategy = *NewStrategy(parameters.strategy, parameters.pipeline,
                                     *planted, Resources());
  const absl::Status status =
      strategy->Prepare(passes, {}, std::stop_token()).status();
  EXPECT_TRUE(status.ok()) << status;
  passes.front().first_batch = first_batch;
  std::vector<std::string> fingerprints;
  for (const Pass& pass : passes) {
    for (std::string& print : Fingerprints(*strategy, pass)) {
      fingerprints.push_back(std::move(print));
    }
  }
  return fingerprints;
}

// Resources with the checksums of the rows of `dataset`, and with an empty
// folder for plans.
StrategyResources CheckingResources(const store::Dataset& dataset) {
  static int number = 0;
  StrategyResources resources = Resources();
  resources.scratch_folder = Folder(absl::StrCat("scratch", ++number));
  resources.data_disks = hearth::testing::DataDisks(resources.scratch_folder);
  auto checksums = dataset.LoadRowChecksums({});
  EXPECT_TRUE(checksums.ok()) << checksums.status();
  if (checksums.ok()) resources.row_check = *std::move(checksums);
  return resources;
}

// Fingerprints of the batches that came before the pass ended.
absl::Status Deliver(Strategy& strategy, std::vector<std::string>& delivered) {
  PassReport report;
  return strategy.Run(
      MakePass(0),
      [&](absl::Span<const train::BatchView> shards) {
        delivered.push_back(hearth::testing::Fingerprint(shards.front()));
        return absl::OkStatus();
      },
      std::stop_token(), report);
}

// Runs a new strategy on the dataset in `folder`.
absl::Status DeliverFrom(const std::string& folder,
                         const ConformanceCase& parameters,
                         std::vector<std::string>& delivered) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(io::FileSystem::Posix(), folder));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy,
                          NewStrategy(parameters.strategy, parameters.pipeline,
                                      *dataset, CheckingResources(*dataset)));
  const std::vector<Pass> passes = {MakePass(0)};
  HEARTH_RETURN_IF_ERROR(
      strategy->Prepare(passes, {}, std::stop_token()).status());
  return Deliver(*strategy, delivered);
}

void FlipBit(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  EXPECT_TRUE(file.good());
}

// Results of a pass with a history: a digest of each shard, and the embeddings
// that are kept after each batch.
struct HistoryRun {
  std::vector<std::string> fingerprints;
  std::vector<std::vector<sample::LiveHistory>> live;
  PassReport report;
};

HistoryRun RunWithHistory(Strategy& strategy, Pass pass,
                          const sample::HistoryPolicy& policy) {
  HistoryRun run;
  pass.history = &policy;
  std::map<int32_t, int64_t> pushed;
  int64_t batch = pass.first_batch;
  const absl::Status status = strategy.Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        for (const train::BatchView& shard : shards) {
          run.fingerprints.push_back(hearth::testing::Fingerprint(shard));
          const sample::TopLayer& top = *shard.sample.top;
          EXPECT_TRUE(sample::CheckTopLayer(top).ok());
          for (const int32_t position : top.pushed) {
            pushed[policy.candidates->SlotOf(top.nodes[position])] = batch;
          }
        }
        std::vector<sample::LiveHistory>& live = run.live.emplace_back();
        for (const auto& [slot, pusher] : pushed) {
          live.push_back({.slot = slot, .batch = pusher});
        }
        ++batch;
        return absl::OkStatus();
      },
      std::stop_token(), run.report);
  EXPECT_TRUE(status.ok()) << status;
  return run;
}

// Embeddings of every other node may be kept, for three batches.
sample::HistoryPolicy EveryOtherNode() {
  const int64_t num_nodes = planted->manifest().node_types[0].num_nodes;
  std::vector<store::NodeId> nodes;
  for (store::NodeId node = num_nodes - 1; node >= 0; node -= 2) {
    nodes.push_back(node);
  }
  return {.candidates =
              std::make_shared<sample::HistoryCandidates>(nodes, num_nodes),
          .staleness = 3};
}

}  // namespace

void StrategyConformanceTest::SetUpTestSuite() {
  const auto path = hearth::testing::ImportPlantedGraph(
      {}, ::testing::TempDir() + "conformance");
  ASSERT_TRUE(path.ok()) << path.status();
  auto dataset = store::Dataset::Open(io::FileSystem::Posix(), *path);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  planted = dataset->release();
  auto split = planted->LoadSplit();
  ASSERT_TRUE(split.ok()) << split.status();
  shuffled = sample::NewShuffledOrder(split->train, 3).release();
  parted = new hearth::testing::PartedPlantedGraph(
      hearth::testing::PartedPlantedGraph::Of(*planted));
}

void StrategyConformanceTest::SetUp() {
  order = GetParam().by_parts ? parted->order.get() : shuffled;
  if (GetParam().pipeline.sampling_gpu.has_value()) fake_gpu.emplace();
}

// The fake's destructor reports memory that was not freed.
void StrategyConformanceTest::TearDown() { fake_gpu.reset(); }

TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemory) {
  const auto reference = Make({MemoryOptions{}, {}});
  const auto strategy = Make(GetParam());
  for (uint64_t key = 0; key < 3; ++key) {
    const auto expected = Fingerprints(*reference, MakePass(key));
    ASSERT_EQ(expected.size(), 8u);  // 360 training nodes in batches of 50.
    EXPECT_EQ(Fingerprints(*strategy, MakePass(key)), expected);
  }
}

// Where they lie, if the strategy leaves them there.
TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemoryInPlace) {
  const auto reference = Make({MemoryOptions{}, {}});
  const auto strategy = Make(GetParam());
  for (uint64_t key = 0; key < 3; ++key) {
    Pass pass = MakePass(key, /*first_batch=*/key == 1 ? 3 : 0);
    const auto expected = Fingerprints(*reference, pass);
    pass.rows_in_place = key != 2;
    EXPECT_EQ(Fingerprints(*strategy, pass), expected);
  }
}

TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemoryDrawnByLayers) {
  if (GetParam().pipeline.sampling_gpu.has_value()) {
    GTEST_SKIP() << "a GPU draws no layers as a whole";
  }
  // Few of many neighbors, then all neighbors.
  const sample::NeighborSamplerOptions sampler = {
      .fanouts = {-1, -1}, .data_seed = 3, .layer_nodes = {20, 100000}};
  const auto expected = TwoPasses({MemoryOptions{}, {}}, sampler);
  EXPECT_EQ(expected.size(), 16u);
  EXPECT_EQ(TwoPasses(GetParam(), sampler), expected);
}

TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemoryDrawnOnce) {
  if (GetParam().pipeline.sampling_gpu.has_value()) {
    GTEST_SKIP() << "a GPU draws anew in each layer";
  }
  sample::NeighborSamplerOptions sampler = {
      .fanouts = {5, 3, 2}, .data_seed = 3, .once = true};
  const auto expected = TwoPasses({MemoryOptions{}, {}}, sampler);
  EXPECT_EQ(expected.size(), 16u);
  EXPECT_EQ(TwoPasses(GetParam(), sampler), expected);
  EXPECT_EQ(TwoPasses(GetParam(), sampler, 5),
            std::vector<std::string>(expected.begin() + 5, expected.end()))
      << "resumed at the sixth batch";
  sampler.once = false;
  EXPECT_NE(TwoPasses({MemoryOptions{}, {}}, sampler), expected);
}

TEST_P(StrategyConformanceTest, DeliversLabelsOfEveryKind) {
  for (const auto kind :
       {store::LabelKind::kMultiLabel, store::LabelKind::kTargets}) {
    const auto path = hearth::testing::ImportPlantedGraph(
        {.label_kind = kind}, Folder(store::Name(kind)));
    ASSERT_TRUE(path.ok()) << path.status();
    const auto dataset = *store::Dataset::Open(io::FileSystem::Posix(), *path);
    const auto make = [&](const ConformanceCase& parameters) {
      return Prepared(*NewStrategy(parameters.strategy, parameters.pipeline,
                                   *dataset, Resources()));
    };
    const auto expected =
        Fingerprints(*make({MemoryOptions{}, {}}), MakePass(0));
    ASSERT_EQ(expected.size(), 8u);
    EXPECT_EQ(Fingerprints(*make(GetParam()), MakePass(0)), expected);
    EXPECT_NE(expected, Fingerprints(*Make(GetParam()), MakePass(0)));
  }
}

TEST_P(StrategyConformanceTest, DeliversFeaturesOfEveryTypeAndAlignment) {
  for (const bool half : {false, true}) {
    for (const bool in_place : {false, true}) {
      // 37 elements: rows cross sectors and have odd addresses.
      const auto path = hearth::testing::ImportPlantedGraph(
          {.feature_dim = 37, .half_features = half, .in_place = in_place},
          Folder(absl::StrCat(half, in_place)));
      ASSERT_TRUE(path.ok()) << path.status();
      const auto dataset =
          *store::Dataset::Open(io::FileSystem::Posix(), *path);
      ASSERT_EQ(dataset->manifest().node_types[0].features.in_place, in_place);
      const auto deliver = [&](const ConformanceCase& parameters) {
        return Fingerprints(
            *Prepared(*NewStrategy(parameters.strategy, parameters.pipeline,
                                   *dataset, Resources())),
            MakePass(0));
      };
      EXPECT_EQ(deliver(GetParam()), deliver({MemoryOptions{}, {}}));
    }
  }
}

TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemoryInRowsOfFewerBytes) {
  std::vector<std::vector<std::string>> delivered;
  for (const auto dtype :
       {store::DType::kBFloat16, store::DType::kScaledInt8}) {
    const std::string name(store::RowTypeName(dtype));
    // Rows of 41 bytes with their scale, or of 74.
    const auto path =
        hearth::testing::ImportPlantedGraph({.feature_dim = 37}, Folder(name));
    ASSERT_TRUE(path.ok()) << path.status();
    const auto dataset = hearth::testing::Converted(
        *store::Dataset::Open(io::FileSystem::Posix(), *path), dtype,
        Folder(name + "_copy"));
    const auto deliver = [&](const ConformanceCase& parameters) {
      StrategyResources resources = Resources();
      if (KindOf(parameters.strategy).reads_single_rows) {
        resources.row_check = *dataset->LoadRowChecksums({});
      }
      return Fingerprints(
          *Prepared(*NewStrategy(parameters.strategy, parameters.pipeline,
                                 *dataset, resources)),
          MakePass(0));
    };
    delivered.push_back(deliver({MemoryOptions{}, {}}));
    EXPECT_EQ(deliver(GetParam()), delivered.back());
  }
  EXPECT_NE(delivered[0], delivered[1]);
}

// The labels of a batch belong to its seeds.
TEST_P(StrategyConformanceTest, LabelsAreThoseOfTheSeeds) {
  const auto strategy = Make(GetParam());
  const store::Labels labels = *planted->LoadLabels();
  PassReport report;
  const absl::Status status = strategy->Run(
      MakePass(0),
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        const auto seeds =
            absl::MakeConstSpan(batch.sample.input_nodes)
                .subspan(0, static_cast<size_t>(batch.sample.num_seeds));
        EXPECT_EQ(batch.labels.classes, labels.Gather(seeds).view().classes);
        EXPECT_EQ(batch.labels.width, 4);
        return absl::OkStatus();
      },
      std::stop_token(), report);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(StrategyConformanceTest, EpochKeysGiveDifferentBatches) {
  const auto strategy = Make(GetParam());
  EXPECT_NE(Fingerprints(*strategy, MakePass(0)),
            Fingerprints(*strategy, MakePass(1)));
}

TEST_P(StrategyConformanceTest, ResumesInTheMiddleOfAPass) {
  const auto strategy = Make(GetParam());
  const auto whole = Fingerprints(*strategy, MakePass(0));
  const auto rest = Fingerprints(*strategy, MakePass(0, 5));
  EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + 5, whole.end()));
}

TEST_P(StrategyConformanceTest, DeliversTheBatchesOfMemoryWithAHistory) {
  if (!DeliversInOrder(GetParam().strategy)) {
    GTEST_SKIP() << "the strategy delivers batches in any order";
  }
  const sample::HistoryPolicy policy = EveryOtherNode();
  const auto reference = Make({MemoryOptions{}, {}});
  const auto strategy = Make(GetParam());
  for (const int64_t shards : {1, 2}) {
    Pass pass = MakePass(1);
    pass.shards = shards;
    std::vector<Pass> passes = {pass, pass};
    passes.front().history = &policy;
    const absl::Status prepared =
        strategy->Prepare(passes, {}, std::stop_token()).status();
    ASSERT_TRUE(prepared.ok()) << prepared;
    const HistoryRun expected = RunWithHistory(*reference, pass, policy);
    const HistoryRun actual = RunWithHistory(*strategy, pass, policy);
    EXPECT_EQ(actual.fingerprints.size(), static_cast<size_t>(8 * shards));
    EXPECT_EQ(actual.fingerprints, expected.fingerprints);
    EXPECT_GT(actual.report.pulled, 0);
    EXPECT_GT(actual.report.pushed, 0);
    EXPECT_GE(actual.report.sum_of_ages, actual.report.pulled);
    EXPECT_LT(actual.report.sum_of_ages, 3 * actual.report.pulled);
    EXPECT_EQ(actual.report.seeds, 360);
    PassReport whole;
    ASSERT_TRUE(strategy
                    ->Run(
                        pass, [](const auto&) { return absl::OkStatus(); },
                        std::stop_token(), whole)
                    .ok());
    EXPECT_LT(actual.report.rows_needed, whole.rows_needed);
    // From the middle on, with the embeddings that are kept by then.
    pass.first_batch = 5;
    sample::HistoryPolicy resumed = policy;
    resumed.live = actual.live[4];
    EXPECT_EQ(
        RunWithHistory(*strategy, pass, resumed).fingerprints,
        std::vector<std::string>(expected.fingerprints.begin() + 5 * shards,
                                 expected.fingerprints.end()));
  }
}

// Requests as a test makes them.
class TestRequests final : public sample::SeedRequests {
 public:
  // Asks for the next batch.
  void Add(std::vector<store::NodeId> seeds) {
    absl::MutexLock lock(&mutex_);
    seeds_.push_back(std::move(seeds));
    changed_.SignalAll();
  }

  std::optional<std::vector<store::NodeId>> Await(int64_t number) override {
    absl::MutexLock lock(&mutex_);
    while (!is_interrupted_ && number >= std::ssize(seeds_)) {
      changed_.Wait(&mutex_);
    }
    if (is_interrupted_) return std::nullopt;
    return seeds_[static_cast<size_t>(number)];
  }

  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    is_interrupted_ = true;
    changed_.SignalAll();
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<std::vector<store::NodeId>> seeds_ ABSL_GUARDED_BY(mutex_);
  bool is_interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

// Each request, after `ahead` of them, comes when a batch has been delivered:
// no batch waits for the next request.
TEST_P(StrategyConformanceTest, DeliversBatchesAsTheyAreAskedFor) {
  if (!KindOf(GetParam().strategy).takes_requests ||
      !DeliversInOrder(GetParam().strategy)) {
    return;
  }
  const auto strategy = Make(GetParam());
  Pass pass = MakePass(1);
  const auto expected = Fingerprints(*strategy, pass);
  const std::vector<store::NodeId> seeds = order->Epoch(pass.epoch_key);
  for (const int64_t ahead : {1, 3}) {
    TestRequests requests;
    pass.requests = &requests;
    pass.order = nullptr;
    int64_t asked = 0;
    const auto ask = [&] {
      const auto begin = static_cast<size_t>(asked * pass.batch_size);
      if (begin >= seeds.size()) return;
      ++asked;
      const auto some = absl::MakeConstSpan(seeds).subspan(
          begin, static_cast<size_t>(pass.batch_size));
      requests.Add({some.begin(), some.end()});
    };
    while (asked < ahead) ask();
    std::vector<std::string> found;
    PassReport report;
    const absl::Status status = strategy->Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          found.push_back(hearth::testing::Fingerprint(shards.front()));
          ask();
          if (found.size() == expected.size()) requests.Interrupt();
          return absl::OkStatus();
        },
        std::stop_token(), report);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(found, expected);
  }
}

// While samplers wait for the next request.
TEST_P(StrategyConformanceTest, StopsWhileItWaitsForRequests) {
  if (!KindOf(GetParam().strategy).takes_requests) return;
  const auto strategy = Make(GetParam());
  Pass pass = MakePass(1);
  for (const bool by_error : {false, true}) {
    TestRequests requests;
    requests.Add({0, 1});
    pass.requests = &requests;
    std::stop_source stop;
    PassReport report;
    const absl::Status status = strategy->Run(
        pass,
        [&](absl::Span<const train::BatchView>) {
          if (by_error) return absl::AbortedError("enough");
          stop.request_stop();
          return absl::OkStatus();
        },
        stop.get_token(), report);
    EXPECT_EQ(status.code(), by_error ? absl::StatusCode::kAborted
                                      : absl::StatusCode::kCancelled);
    EXPECT_EQ(report.batches, 1);
  }
}

TEST_P(StrategyConformanceTest, CountsRowsAndBytesNeeded) {
  const auto strategy = Make(GetParam());
  int64_t rows = 0;
  PassReport report;
  const absl::Status status = strategy->Run(
      MakePass(0),
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        rows += static_cast<int64_t>(batch.sample.input_nodes.size());
        EXPECT_EQ(report.rows_needed, rows) << "this batch included";
        EXPECT_GE(report.stages.size(), 2u);
        return absl::OkStatus();
      },
      std::stop_token(), report);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(report.rows_needed, rows);
  EXPECT_EQ(report.bytes_needed, rows * 20 * 4);
  if (report.rows_read.has_value()) {
    int64_t hits = 0;
    for (const LevelHits& level : report.hits) hits += level.rows;
    EXPECT_EQ(hits + *report.rows_read, rows);
    EXPECT_GE(*report.bytes_read, *report.rows_read * 20 * 4);
    EXPECT_GT(*report.read_ops, 0);
    EXPECT_GE(*report.io_wait_seconds, 0);
  }
  ASSERT_GE(report.stages.size(), 2u);
  for (const auto& stage : report.stages) {
    EXPECT_EQ(stage.items, report.batches) << stage.name;
  }
}

TEST_P(StrategyConformanceTest, ReturnsTheConsumersErrorAndGoesOn) {
  const auto strategy = Make(GetParam());
  PassReport report;
  int64_t seen = 0;
  const absl::Status status = strategy->Run(
      MakePass(0),
      [&](absl::Span<const train::BatchView>) {
        return ++seen == 3 ? absl::AbortedError("enough") : absl::OkStatus();
      },
      std::stop_token(), report);
  EXPECT_EQ(status, absl::AbortedError("enough"));
  EXPECT_EQ(report.batches, 3);
  EXPECT_EQ(Fingerprints(*strategy, MakePass(0)).size(), 8u);
}

TEST_P(StrategyConformanceTest, StopsWhenAsked) {
  const auto strategy = Make(GetParam());
  std::stop_source stop;
  PassReport report;
  const absl::Status status = strategy->Run(
      MakePass(0),
      [&](absl::Span<const train::BatchView>) {
        stop.request_stop();
        return absl::OkStatus();
      },
      stop.get_token(), report);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(report.batches, 1);
}

TEST_P(StrategyConformanceTest, DeliversNothingOfDamagedFiles) {
  const std::string folder = Folder("damaged");
  const auto path = hearth::testing::ImportPlantedGraph({}, folder);
  ASSERT_TRUE(path.ok()) << path.status();
  const auto expected = Fingerprints(*Make({MemoryOptions{}, {}}), MakePass(0));
  RandomStream random(7, RandomPurpose::kGenerator);
  for (const char* name : {"node.features.npy", "node.labels.npy",
                           "edge.indices.npy", "edge.indptr.npy"}) {
    const std::string file = io::JoinPath(*path, name);
    int found = 0;
    for (int flip = 0; flip < 6; ++flip) {
      const uint64_t size = std::filesystem::file_size(file);
      const uint64_t begin = absl::StrContains(name, "features") ? 4096 : 128;
      const uint64_t offset = begin + random.Below(size - begin);
      FlipBit(file, offset);
      std::vector<std::string> delivered;
      const absl::Status status = DeliverFrom(*path, GetParam(), delivered);
      FlipBit(file, offset);
      ASSERT_LE(delivered.size(), expected.size());
      EXPECT_TRUE(
          std::equal(delivered.begin(), delivered.end(), expected.begin()))
          << "damaged bytes of " << name << " were delivered";
      if (status.ok()) continue;
      ++found;
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), file)) << status;
    }
    EXPECT_GT(found, 0) << name;
  }
}

// The bytes are lost while the strategy has the files open.
TEST_P(StrategyConformanceTest, DeliversNothingOfFilesThatWereCut) {
  for (const char* name : {"node.features.npy", "edge.indices.npy"}) {
    const auto path = hearth::testing::ImportPlantedGraph({}, Folder(name));
    ASSERT_TRUE(path.ok()) << path.status();
    const auto dataset = *store::Dataset::Open(io::FileSystem::Posix(), *path);
    const auto strategy =
        Prepared(*NewStrategy(GetParam().strategy, GetParam().pipeline,
                              *dataset, CheckingResources(*dataset)));
    std::filesystem::resize_file(io::JoinPath(*path, name), 4096);
    const auto expected =
        Fingerprints(*Make({MemoryOptions{}, {}}), MakePass(0));
    std::vector<std::string> delivered;
    const absl::Status status = Deliver(*strategy, delivered);
    ASSERT_LE(delivered.size(), expected.size());
    EXPECT_TRUE(
        std::equal(delivered.begin(), delivered.end(), expected.begin()));
    // A strategy with rows and lists in memory, or packed, does not read the
    // file.
    if (status.ok()) continue;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
  }
}

}  // namespace hearth::strategy
