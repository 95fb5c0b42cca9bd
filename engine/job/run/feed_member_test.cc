// Tests of feeds as jobs: what their clients get is what models of train jobs
// get, and neither harms the other.
#include "engine/job/run/feed_member.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/channel.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/data/nodes_file.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_job.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kCredits = 3;
constexpr int64_t kTrainBatches = 6;
constexpr int64_t kEpochs = 3;

// All arrays of a batch that models get, too: a line each, with name, shape and
// bytes.
std::vector<std::string> ContentOf(const feed::BatchArrays& arrays,
                                   const std::byte* rows,
                                   const std::byte* rest) {
  std::vector<std::string> content;
  for (const feed::Array& array : arrays.arrays) {
    if (array.name == "input_id") continue;
    const std::byte* data = (array.in_rows ? rows : rest) + array.offset;
    content.push_back(absl::StrCat(
        array.name, " of layer ", array.layer.value_or(99), " [",
        absl::StrJoin(array.shape, ","), "] ",
        absl::string_view(reinterpret_cast<const char*>(data), array.bytes())));
  }
  return content;
}

// The numbers of an array of a batch.
std::vector<int64_t> NumbersOf(const feed::BatchArrays& arrays,
                               absl::string_view name, const std::byte* rest) {
  for (const feed::Array& array : arrays.arrays) {
    if (array.name != name) continue;
    const auto* first = reinterpret_cast<const int64_t*>(rest + array.offset);
    return {first, first + array.bytes() / sizeof(int64_t)};
  }
  return {};
}

// A batch as its client has it.
struct Batch {
  uint64_t pass = 0;
  int64_t number = 0;
  std::vector<uint64_t> slots;
  std::vector<std::string> content;
  std::vector<int64_t> nodes = {};
  std::vector<int64_t> seeds = {};
  std::vector<int64_t> input_id = {};
  std::vector<int64_t> y = {};
  // Reads it again, as long as it is not released.
  std::function<std::vector<std::string>()> read;
};

// A client's script: asks for passes, and takes their batches one by one. Its
// calls wait for what they need.
class Script final : public feed::Client {
 public:
  explicit Script(feed::Channel& channel) : channel_(channel) {}

  absl::Status Send(const feed::Welcome& /*welcome*/) override {
    absl::MutexLock lock(&mutex_);
    ++welcomes_;
    changed_.SignalAll();
    return absl::OkStatus();
  }
  absl::Status Send(const feed::OutgoingBatch& batch) override {
    // The pointers, but no reference: the channel holds what a client does.
    const std::byte* const rows = batch.rows->data();
    const std::byte* const rest = batch.rest->data();
    const auto read = [arrays = batch.arrays, rows, rest] {
      return ContentOf(arrays, rows, rest);
    };
    std::vector<int64_t> nodes = NumbersOf(batch.arrays, "n_id", rest);
    absl::MutexLock lock(&mutex_);
    coming_.push_back(
        Batch{.pass = batch.pass,
              .number = batch.number,
              .slots = {batch.rows->id(), batch.rest->id()},
              .content = read(),
              .nodes = nodes,
              .seeds = {nodes.begin(), nodes.begin() + batch.num_seeds},
              .input_id = NumbersOf(batch.arrays, "input_id", rest),
              .y = NumbersOf(batch.arrays, "y", rest),
              .read = read});
    changed_.SignalAll();
    return absl::OkStatus();
  }
  absl::Status SendEnd(const feed::OpenPass& pass,
                       const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    end_ = status;
    coming_.push_back(pass.number);
    changed_.SignalAll();
    return absl::OkStatus();
  }
  void SendError(const absl::Status& /*error*/) override {}

  void AwaitWelcome() {
    absl::MutexLock lock(&mutex_);
    while (welcomes_ == 0) changed_.Wait(&mutex_);
  }

  void Open(feed::Split split, int64_t epoch = 0, int64_t first_batch = 0) {
    EXPECT_TRUE(channel_
                    .Open({.number = ++pass_,
                           .split = split,
                           .epoch = epoch,
                           .next_batch = first_batch,
                           .layout = layout,
                           .all_labels = all_labels})
                    .ok());
  }
  void Close() { channel_.Close(pass_); }
  // Asks for a batch of the open pass.
  void Ask(const std::vector<int64_t>& seeds) {
    const std::vector<uint64_t> nodes(seeds.begin(), seeds.end());
    EXPECT_TRUE(channel_.Request(pass_, nodes, /*goes_on=*/false).ok());
  }
  // How the last pass that has ended did.
  absl::Status end() {
    absl::MutexLock lock(&mutex_);
    return end_;
  }

  // The next batch of the open pass; absent at its end. Releases what still
  // comes of passes before.
  std::optional<Batch> Next() {
    while (true) {
      std::variant<Batch, uint64_t> next = TakeNext();
      if (const auto* ended = std::get_if<uint64_t>(&next)) {
        if (*ended == pass_) return std::nullopt;
      } else if (std::get<Batch>(next).pass == pass_) {
        return std::get<Batch>(std::move(next));
      } else {
        Release(std::get<Batch>(next));
      }
    }
  }
  void Release(const Batch& batch) {
    EXPECT_TRUE(channel_.Release(batch.slots).ok());
  }

  // The next batches of the open pass, up to `most`, and to its end; releases
  // each.
  std::vector<Batch> Take(int64_t most = INT64_MAX) {
    std::vector<Batch> batches;
    while (std::ssize(batches) < most) {
      std::optional<Batch> batch = Next();
      if (!batch.has_value()) break;
      Release(*batch);
      batches.push_back(*std::move(batch));
    }
    return batches;
  }

  feed::BatchLayout layout = feed::BatchLayout::kGraph;
  bool all_labels = false;

 private:
  std::variant<Batch, uint64_t> TakeNext() {
    absl::MutexLock lock(&mutex_);
    while (coming_.empty()) changed_.Wait(&mutex_);
    std::variant<Batch, uint64_t> next = std::move(coming_.front());
    coming_.pop_front();
    return next;
  }

  feed::Channel& channel_;
  uint64_t pass_ = 0;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  int welcomes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  // Batches, and numbers of passes that have ended.
  std::deque<std::variant<Batch, uint64_t>> coming_ ABSL_GUARDED_BY(mutex_);
};

// The batches that a model gets, as arrays: of each training epoch, and of
// evaluations, in their order.
struct Seen {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<std::string>> trained;
  std::vector<std::vector<std::string>> evaluated;
};

// A model that writes down all that it gets.
class WritingStep final : public LinearStep {
 public:
  WritingStep(const train::ModelShape& shape, feed::BatchLayout layout,
              const feed::FeedGraph& graph, Seen& seen)
      : LinearStep(shape), layout_(layout), graph_(graph), seen_(seen) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_ASSIGN_OR_RETURN(
        seen_.trained[std::pair(position.epoch, position.batch)],
        Written(shards.front()));
    return LinearStep::Train(shards, position);
  }
  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_ASSIGN_OR_RETURN(seen_.evaluated.emplace_back(),
                            Written(shards.front()));
    return LinearStep::Evaluate(shards);
  }

 private:
  absl::StatusOr<std::vector<std::string>> Written(
      const train::BatchView& batch) {
    HEARTH_ASSIGN_OR_RETURN(const feed::BatchArrays arrays,
                            feed::DescribeArrays(layout_, batch, graph_));
    std::vector<std::byte> rest(arrays.bytes);
    feed::FillArrays(arrays, batch, graph_, rest.data());
    return ContentOf(arrays, reinterpret_cast<const std::byte*>(batch.inputs),
                     rest.data());
  }

  const feed::BatchLayout layout_;
  const feed::FeedGraph graph_;
  Seen& seen_;
};

// A model that waits for the test before it trains a batch.
class HeldStep final : public LinearStep {
 public:
  HeldStep(const train::ModelShape& shape,
           std::function<void(const train::StepPosition&)> before)
      : LinearStep(shape), before_(std::move(before)) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    before_(position);
    return LinearStep::Train(shards, position);
  }

 private:
  const std::function<void(const train::StepPosition&)> before_;
};

// A job on a thread of its own: a feed if it has a channel.
struct Job {
  TrainJobOptions options;
  RecordingObserver observer;
  std::stop_source stop;
  absl::StatusOr<TrainReport> report = absl::UnknownError("has not run");
};

class FeedTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    shared_passes_ = std::make_unique<SharedPassGroups>(SharedPassOptions(),
                                                        registry_.get());
    new_train_step_ = [this](const train::TrainOptions&,
                             const train::ModelShape& shape)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      return make_step_(shape);
    };
    environment_.emplace(Environment());
    ASSERT_TRUE(channel_->Connect(script_).ok());
  }

  std::unique_ptr<Job> NewJob(const std::string& name) {
    auto job = std::make_unique<Job>();
    job->options = Options(name);
    job->options.name = name;
    job->options.data.once = true;
    job->options.data.epochs = kEpochs;
    return job;
  }

  std::unique_ptr<Job> NewFeed(const std::string& name = "feed") {
    std::unique_ptr<Job> job = NewJob(name);
    job->options.train.model = train::NoModelOptions();
    job->options.feed = {.channels = {channel_}, .credits = kCredits};
    return job;
  }

  void Run(Job& job) {
    const auto metrics =
        NewTrainMetrics(*registry_, job.options.name, "memory");
    job.report = RunTrainJob(*environment_, job.options, job.observer, *metrics,
                             job.stop.get_token());
    shared_passes_->Forget(job.options.name);
  }

  // Starts jobs of one group, in this order.
  std::vector<std::jthread> Start(const std::vector<Job*>& jobs) {
    for (Job* job : jobs) {
      job->options.sharing_key = "all";
      shared_passes_->Expect({.job = job->options.name,
                              .key = job->options.sharing_key,
                              .epoch = 0,
                              .join = job->options.join});
    }
    std::vector<std::jthread> threads;
    for (Job* job : jobs) {
      threads.emplace_back([this, job] { Run(*job); });
      const std::string members =
          absl::StrCat("hearth_convoy_members ", threads.size());
      while (threads.size() < jobs.size() &&
             !absl::StrContains(registry_->Text(), members)) {
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
    return threads;
  }

  // What a job with a model gets by strategy memory.
  Seen SeenByAModel(feed::BatchLayout layout) {
    const auto manifest = store::ParseManifest(
        *io::ReadWholeFile(io::FileSystem::Posix(), dataset_ + "/manifest.json",
                           1 << 20),
        dataset_);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    Seen seen;
    const MakeStep before =
        std::exchange(make_step_, [&](const train::ModelShape& shape) {
          return std::make_unique<WritingStep>(
              shape, layout, feed::FeedGraph::Of(*manifest, /*target=*/0),
              seen);
        });
    const std::unique_ptr<Job> job =
        NewJob(absl::StrCat("model", static_cast<int>(layout)));
    Run(*job);
    EXPECT_TRUE(job->report.ok()) << job->report.status();
    make_step_ = before;
    return seen;
  }

  store::Split Split() const {
    const auto dataset =
        store::Dataset::Open(io::FileSystem::Posix(), dataset_);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *(*dataset)->LoadSplit();
  }

  // A file of nodes.
  NodesFile Own(const std::vector<store::NodeId>& nodes) const {
    const absl::Span<const std::byte> bytes(
        reinterpret_cast<const std::byte*>(nodes.data()),
        nodes.size() * sizeof(store::NodeId));
    Sha256 digest;
    digest.Update(bytes);
    NodesFile file = {.path = absl::StrCat(root_, "/", digest.HexDigest()),
                      .count = std::ssize(nodes),
                      .sha256 = digest.HexDigest()};
    const auto writer = NodesFileWriter::Create(
        io::FileSystem::Posix(), file, file.path + ".tmp", /*num_nodes=*/600);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_EQ((*writer)->Append(bytes), absl::OkStatus());
    EXPECT_EQ((*writer)->Finish(), absl::OkStatus());
    return file;
  }

  static std::vector<int64_t> At(const std::vector<store::NodeId>& nodes,
                                 const std::vector<int64_t>& places) {
    std::vector<int64_t> found;
    for (const int64_t place : places) {
      found.push_back(nodes.at(static_cast<size_t>(place)));
    }
    return found;
  }

  // Digest that a job has alone.
  std::string DigestAlone(const Job& job, int64_t first_epoch_key = 0) {
    Job alone;
    alone.options = job.options;
    alone.options.directory += "-alone";
    alone.options.name += "-alone";
    alone.options.sharing_key.clear();
    alone.options.data.first_epoch_key = first_epoch_key;
    Run(alone);
    EXPECT_TRUE(alone.report.ok()) << alone.report.status();
    return alone.report.ok() ? alone.report->loss_digest : "";
  }

  // Lets models wait before each batch for `before`.
  void HoldModels(std::function<void(const train::StepPosition&)> before) {
    make_step_ = [before = std::move(before)](const train::ModelShape& shape) {
      return std::make_unique<HeldStep>(shape, before);
    };
  }

  using MakeStep = std::function<std::unique_ptr<train::TrainStep>(
      const train::ModelShape& shape)>;

  std::optional<JobEnvironment> environment_;
  MakeStep make_step_ = [](const train::ModelShape& shape) {
    return std::make_unique<LinearStep>(shape);
  };
  ManualClock client_clock_;
  const std::shared_ptr<feed::Channel> channel_ =
      std::make_shared<feed::Channel>(client_clock_);
  const std::shared_ptr<Script> script_ = std::make_shared<Script>(*channel_);
};

// Expects the batches of a training epoch, from `first` on.
void ExpectEpoch(const std::vector<Batch>& batches, const Seen& seen,
                 uint64_t epoch, int64_t first = 0) {
  ASSERT_THAT(batches, SizeIs(kTrainBatches - first));
  for (int64_t i = 0; i < std::ssize(batches); ++i) {
    const Batch& batch = batches[static_cast<size_t>(i)];
    EXPECT_EQ(batch.number, first + i);
    // Not EXPECT_EQ, which would print all bytes.
    EXPECT_TRUE(batch.content == seen.trained.at({epoch, first + i}))
        << "epoch " << epoch << ", batch " << first + i;
  }
}

class FeedStrategyTest
    : public FeedTest,
      public ::testing::WithParamInterface<strategy::StrategyOptions> {};

TEST_P(FeedStrategyTest, ClientsGetWhatModelsGet) {
  for (const feed::BatchLayout layout :
       {feed::BatchLayout::kGraph, feed::BatchLayout::kLayers}) {
    const Seen seen = SeenByAModel(layout);
    ASSERT_THAT(seen.trained, SizeIs(kEpochs * kTrainBatches));
    ASSERT_GE(seen.evaluated.size(), 4u);
    const std::unique_ptr<Job> feed =
        NewFeed(absl::StrCat("feed", static_cast<int>(layout)));
    feed->options.data.strategy = GetParam();
    script_->layout = layout;
    std::jthread thread([&] { Run(*feed); });
    for (const int64_t epoch : {0, 2, 1}) {
      script_->Open(feed::Split::kTrain, epoch);
      ExpectEpoch(script_->Take(), seen, static_cast<uint64_t>(epoch));
    }
    // Epochs repeat.
    script_->Open(feed::Split::kTrain, kEpochs + 1);
    ExpectEpoch(script_->Take(), seen, 1);
    // A model validates first, and is tested last.
    script_->Open(feed::Split::kValid);
    const std::vector<Batch> valid = script_->Take();
    script_->Open(feed::Split::kTest);
    const std::vector<Batch> test = script_->Take();
    ASSERT_THAT(valid, SizeIs(2));
    ASSERT_THAT(test, SizeIs(2));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(valid[i].content == seen.evaluated[i]);
      EXPECT_TRUE(test[i].content == seen.evaluated.end()[i - 2]);
    }
    feed->stop.request_stop();
    thread.join();
    EXPECT_TRUE(absl::IsCancelled(feed->report.status()));
  }
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, FeedStrategyTest,
    ::testing::Values(strategy::MemoryOptions{}, strategy::MmapOptions{},
                      strategy::GnndriveOptions{},
                      strategy::GinexOptions{.cpu_cache_bytes = 40000}),
    [](const auto& info) { return std::string(strategy::Name(info.param)); });

// Nodes of the client's own, here those of the split, in its order.
TEST_P(FeedStrategyTest, NodesOfItsOwnAreAsASplitOfThem) {
  const Seen seen = SeenByAModel(feed::BatchLayout::kGraph);
  const store::Split split = Split();
  const std::unique_ptr<Job> feed = NewFeed();
  feed->options.data.strategy = GetParam();
  feed->options.data.own_nodes.train = Own(split.train);
  std::vector<store::NodeId> reversed(split.test.rbegin(), split.test.rend());
  feed->options.data.own_nodes.valid = Own(reversed);
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain, /*epoch=*/1);
  const std::vector<Batch> train = script_->Take();
  ExpectEpoch(train, seen, 1);
  for (const Batch& batch : train) {
    EXPECT_EQ(batch.seeds, At(split.train, batch.input_id));
  }
  script_->Open(feed::Split::kValid);
  std::vector<store::NodeId> seeds;
  for (const Batch& batch : script_->Take()) {
    EXPECT_EQ(batch.input_id.front(), std::ssize(seeds));
    EXPECT_EQ(batch.seeds, At(reversed, batch.input_id));
    seeds.insert(seeds.end(), batch.seeds.begin(), batch.seeds.end());
  }
  EXPECT_EQ(seeds, reversed);
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

TEST_P(FeedStrategyTest, LabelsOfAllNodesComeWhereTheyAreWanted) {
  const auto dataset = store::Dataset::Open(io::FileSystem::Posix(), dataset_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const store::Labels labels = *(*dataset)->LoadLabels();
  const store::Split split = Split();
  const std::unique_ptr<Job> feed = NewFeed();
  feed->options.data.strategy = GetParam();
  script_->all_labels = true;
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain, /*epoch=*/2, /*first_batch=*/3);
  for (const Batch& batch : script_->Take()) {
    EXPECT_EQ(batch.seeds, At(split.train, batch.input_id));
    std::vector<int64_t> expected;
    const store::Labels found = labels.Gather(batch.nodes);
    for (const int32_t label : found.view().classes) expected.push_back(label);
    EXPECT_EQ(batch.y, expected);
    EXPECT_GT(batch.y.size(), batch.seeds.size());
  }
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

// A loop that is left, and one that goes on, at each batch.
TEST_P(FeedStrategyTest, PassesBeginAndEndAnywhere) {
  const Seen seen = SeenByAModel(feed::BatchLayout::kGraph);
  const std::unique_ptr<Job> feed = NewFeed();
  feed->options.data.strategy = GetParam();
  std::jthread thread([&] { Run(*feed); });
  for (int64_t first = 0; first <= kTrainBatches; ++first) {
    SCOPED_TRACE(first);
    script_->Open(feed::Split::kTrain, /*epoch=*/1);
    EXPECT_THAT(script_->Take(first), SizeIs(first));
    script_->Close();
    script_->Open(feed::Split::kTrain, /*epoch=*/1, first);
    ExpectEpoch(script_->Take(), seen, 1, first);
  }
  channel_->Bye();
  thread.join();
  ASSERT_TRUE(feed->report.ok()) << feed->report.status();
  EXPECT_EQ(channel_->held_batches(), 0);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

// Expects the batch that is asked for by the seeds of `batch`.
void ExpectEqual(const std::optional<Batch>& found, const Batch& batch) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->number, batch.number);
  EXPECT_TRUE(found->content == batch.content) << "batch " << batch.number;
}

TEST_P(FeedStrategyTest, RequestsGetTheBatchesOfTheirSeeds) {
  const std::unique_ptr<Job> feed = NewFeed();
  feed->options.data.strategy = GetParam();
  feed->options.pipeline.samplers = 3;
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain, /*epoch=*/1);
  const std::vector<Batch> trained = script_->Take();
  script_->Open(feed::Split::kRequests, /*epoch=*/1);
  if (!strategy::KindOf(GetParam()).takes_requests) {
    EXPECT_FALSE(script_->Next().has_value());
    EXPECT_TRUE(absl::IsInvalidArgument(script_->end())) << script_->end();
    EXPECT_THAT(std::string(script_->end().message()),
                HasSubstr(strategy::Name(GetParam())));
  } else {
    // One after the other, each answered before the next comes.
    for (const Batch& batch : trained) {
      script_->Ask(batch.seeds);
      std::optional<Batch> found = script_->Next();
      ExpectEqual(found, batch);
      script_->Release(*found);
    }
    // From a later one on, all at once; more than there are credits.
    script_->Open(feed::Split::kRequests, /*epoch=*/1, /*first_batch=*/1);
    for (size_t i = 1; i < trained.size(); ++i) script_->Ask(trained[i].seeds);
    for (size_t i = 1; i < trained.size(); ++i) {
      std::optional<Batch> found = script_->Next();
      ExpectEqual(found, trained[i]);
      script_->Release(*found);
    }
  }
  // The job is unharmed.
  script_->Open(feed::Split::kTrain);
  EXPECT_THAT(script_->Take(), SizeIs(kTrainBatches));
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(FeedTest, AWrongRequestEndsItsPassAfterTheBatchesBefore) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->AwaitWelcome();
  const std::vector<int64_t> good = {3, 1, 2};
  std::vector<int64_t> many(static_cast<size_t>(feed->options.data.batch_size) +
                            1);
  std::iota(many.begin(), many.end(), 0);
  const std::pair<std::vector<int64_t>, std::string> wrong[] = {
      {{}, "request 1 has no seeds"},
      {many, "request 1 has more than"},
      {{5, 7, 5}, "request 1 has seed 5 twice"},
      {{1, 1'000'000}, "seed 1000000 is not a node of the target type"},
      {{-1, 1}, "seed 18446744073709551615 is not a node"}};
  for (const auto& [seeds, words] : wrong) {
    SCOPED_TRACE(words);
    script_->Open(feed::Split::kRequests);
    script_->Ask(good);
    script_->Ask(seeds);
    script_->Ask(good);
    const std::vector<Batch> batches = script_->Take();
    ASSERT_THAT(batches, SizeIs(1));
    EXPECT_EQ(batches[0].seeds, good);
    EXPECT_TRUE(absl::IsInvalidArgument(script_->end())) << script_->end();
    EXPECT_THAT(std::string(script_->end().message()), HasSubstr(words));
  }
  // More than may wait.
  script_->Open(feed::Split::kRequests);
  std::vector<Batch> held;
  for (size_t i = 0; i < kCredits + feed::Channel::kMostRequests + 1; ++i) {
    script_->Ask({3});
    if (i < kCredits) held.push_back(*script_->Next());
  }
  for (const Batch& batch : held) script_->Release(batch);
  EXPECT_THAT(script_->Take(), SizeIs(feed::Channel::kMostRequests));
  EXPECT_TRUE(absl::IsResourceExhausted(script_->end())) << script_->end();
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

TEST_F(FeedTest, RequestsGoOnWhereverTheirTurnsEnd) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain, /*epoch=*/2);
  const std::vector<Batch> trained = script_->Take();
  script_->Open(feed::Split::kRequests, /*epoch=*/2);
  const auto expect_next = [&](size_t i) {
    std::optional<Batch> found = script_->Next();
    ExpectEqual(found, trained[i]);
    script_->Release(*found);
  };
  script_->Ask(trained[0].seeds);
  expect_next(0);
  // The turn is over with the last of these, and the client never away.
  for (size_t i = 1; i < 3; ++i) {
    client_clock_.Advance(0.6 * Member::kRequestSeconds);
    script_->Ask(trained[i].seeds);
    expect_next(i);
  }
  script_->Ask(trained[3].seeds);
  expect_next(3);
  // The job gives up its place while its client asks for nothing.
  channel_->Yield();
  threads.clear();
  EXPECT_EQ(WaitCauseOf(feed->report.status()), WaitCause::kClient)
      << feed->report.status();
  EXPECT_FALSE(channel_->ClientWaits());
  script_->Ask(trained[4].seeds);
  EXPECT_TRUE(channel_->ClientWaits());
  threads.emplace_back([&] { Run(*feed); });
  expect_next(4);
  // A stop ends the wait for the next.
  feed->stop.request_stop();
  threads.clear();
  EXPECT_TRUE(absl::IsCancelled(feed->report.status()))
      << feed->report.status();
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(FeedTest, AFeedThatAnswersRequestsHoldsNobody) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  const std::string digest = DigestAlone(*model);
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->AwaitWelcome();
  script_->Open(feed::Split::kRequests);
  script_->Ask({4, 2});
  script_->Ask({7});
  EXPECT_THAT(script_->Take(2), SizeIs(2));
  // The clock of the feed stands still: nobody waits for its client, which
  // asks for nothing.
  threads.pop_back();
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, digest);
  EXPECT_THAT(model->report->peers.jobs, IsEmpty());
  script_->Ask({1, 2, 3});
  EXPECT_THAT(script_->Take(1), SizeIs(1));
  channel_->Bye();
  threads.clear();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

TEST_F(FeedTest, RequestsAndEpochsTakeTurns) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  std::atomic<int64_t> trained = 0;
  HoldModels([&](const train::StepPosition&) { ++trained; });
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->AwaitWelcome();
  script_->Open(feed::Split::kRequests);
  // There is always one that waits.
  script_->Ask({1, 2});
  while (trained < kEpochs * kTrainBatches) {
    script_->Ask({1, 2});
    EXPECT_THAT(script_->Take(1), SizeIs(1));
  }
  threads.pop_back();
  EXPECT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_THAT(script_->Take(1), SizeIs(1));
  channel_->Bye();
  threads.clear();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

TEST_F(FeedTest, BatchesBeyondTheLastAreNone) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain, 0, int64_t{1} << 40);
  EXPECT_THAT(script_->Take(), IsEmpty());
  script_->Open(feed::Split::kTrain, int64_t{1} << 40, 5);
  EXPECT_THAT(script_->Take(), SizeIs(1));
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

TEST_F(FeedTest, ValidationAmidAnEpoch) {
  const Seen seen = SeenByAModel(feed::BatchLayout::kGraph);
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain);
  std::vector<Batch> trained = script_->Take(2);
  script_->Open(feed::Split::kValid);
  EXPECT_THAT(script_->Take(), SizeIs(2));
  script_->Open(feed::Split::kTrain, 0, 2);
  for (Batch& batch : script_->Take()) trained.push_back(std::move(batch));
  ExpectEpoch(trained, seen, 0);
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  EXPECT_EQ(feed->observer.running, 1);
  for (const feed::Split split : {feed::Split::kTrain, feed::Split::kValid}) {
    EXPECT_EQ(channel_->passes(split).sum.stages.back().name, "client");
  }
}

TEST_F(FeedTest, AFeedAndModelsShareAPass) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> models[] = {NewJob("a"), NewJob("b")};
  for (Job* job : {feed.get(), models[0].get(), models[1].get()}) {
    job->options.data.strategy = strategy::GnndriveOptions{};
  }
  const std::string digest = DigestAlone(*models[0]);
  std::vector<std::jthread> threads =
      Start({feed.get(), models[0].get(), models[1].get()});
  // While the feed asks for nothing, the group waits for it.
  script_->AwaitWelcome();
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    script_->Open(feed::Split::kTrain, epoch);
    EXPECT_THAT(script_->Take(), SizeIs(kTrainBatches));
  }
  channel_->Bye();
  threads.clear();
  ASSERT_TRUE(feed->report.ok()) << feed->report.status();
  EXPECT_THAT(feed->report->peers.jobs, ElementsAre("a", "b"));
  EXPECT_EQ(channel_->passes(feed::Split::kTrain).sum.stages.back().name,
            "train");
  int64_t charged = feed->report->peers.bytes_charged;
  for (const std::unique_ptr<Job>& model : models) {
    ASSERT_TRUE(model->report.ok()) << model->report.status();
    EXPECT_EQ(model->report->loss_digest, digest);
    charged += model->report->peers.bytes_charged;
  }
  // What all are charged for together is what one would read alone, but for
  // what is lost by rounding in each pass.
  const int64_t alone = models[0]->report->peers.bytes_alone;
  EXPECT_GT(alone, 0);
  EXPECT_LE(charged, alone);
  EXPECT_GT(charged, alone - 100);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(FeedTest, AClientThatOnlyValidatesLetsOthersTrain) {
  std::atomic<int64_t> trained = 0;
  HoldModels([&](const train::StepPosition&) { ++trained; });
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  const std::string digest = DigestAlone(*model);
  trained = 0;
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->AwaitWelcome();
  for (int64_t passes = 0; passes < 2 * kEpochs; ++passes) {
    script_->Open(feed::Split::kValid);
    EXPECT_THAT(script_->Take(), SizeIs(2));
    EXPECT_EQ(trained, kTrainBatches * std::min(passes, kEpochs));
  }
  channel_->Bye();
  threads.clear();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, digest);
}

TEST_F(FeedTest, WhatAClientHoldsStaysWhileOthersGoOn) {
  const auto other_channel = std::make_shared<feed::Channel>(client_clock_);
  const auto other = std::make_shared<Script>(*other_channel);
  ASSERT_TRUE(other_channel->Connect(other).ok());
  const std::unique_ptr<Job> holder = NewFeed("holder");
  const std::unique_ptr<Job> reader = NewFeed("reader");
  reader->options.feed->channels = {other_channel};
  std::vector<std::jthread> threads = Start({holder.get(), reader.get()});
  std::jthread other_thread([&] {
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      other->Open(feed::Split::kTrain, epoch);
      EXPECT_THAT(other->Take(), SizeIs(kTrainBatches));
    }
    other_channel->Bye();
  });
  script_->Open(feed::Split::kTrain);
  std::vector<Batch> held;
  for (int i = 1; i < kCredits; ++i) held.push_back(*script_->Next());
  EXPECT_THAT(script_->Take(), SizeIs(kTrainBatches - kCredits + 1));
  for (int64_t epoch = 1; epoch < kEpochs; ++epoch) {
    script_->Open(feed::Split::kTrain, epoch);
    EXPECT_THAT(script_->Take(), SizeIs(kTrainBatches));
  }
  channel_->Bye();
  threads.clear();
  EXPECT_TRUE(holder->report.ok()) << holder->report.status();
  EXPECT_TRUE(reader->report.ok()) << reader->report.status();
  // Though the jobs have ended.
  for (const Batch& batch : held) {
    EXPECT_TRUE(batch.read() == batch.content);
    script_->Release(batch);
  }
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(FeedTest, AStalledClientHoldsNobodyForLongAndGoesOnLater) {
  const Seen seen = SeenByAModel(feed::BatchLayout::kGraph);
  // The model's last batch before the feed's client is away.
  absl::Notification is_away;
  HoldModels([&](const train::StepPosition& position) {
    if (position.epoch == 0 && position.batch == kCredits - 1) {
      is_away.WaitForNotification();
    }
  });
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->Open(feed::Split::kTrain);
  std::vector<Batch> batches;
  for (int i = 0; i < kCredits; ++i) batches.push_back(*script_->Next());
  client_clock_.Advance(feed::Channel::kPatienceSeconds);
  is_away.Notify();
  threads.clear();
  // The model's job has ended, and the client's waits.
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, DigestAlone(*model));
  EXPECT_EQ(WaitCauseOf(feed->report.status()), WaitCause::kClient)
      << feed->report.status();
  EXPECT_FALSE(channel_->ClientWaits());
  for (const Batch& batch : batches) {
    EXPECT_TRUE(batch.read() == batch.content);
    script_->Release(batch);
  }
  EXPECT_TRUE(channel_->ClientWaits());
  std::jthread again([&] { Run(*feed); });
  for (Batch& batch : script_->Take()) batches.push_back(std::move(batch));
  ExpectEpoch(batches, seen, 0);
  channel_->Bye();
  again.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(FeedTest, WhatAClientHoldsCountsOnceWhenItsJobRunsAgain) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread first([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain);
  const Batch held = *script_->Next();
  const uint64_t reserved = memory_->reserved_bytes();
  script_->Close();
  channel_->Yield();
  first.join();
  EXPECT_EQ(WaitCauseOf(feed->report.status()), WaitCause::kClient)
      << feed->report.status();
  EXPECT_GT(memory_->reserved_bytes(), 0u);
  std::jthread again([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain);
  const Batch next = *script_->Next();
  EXPECT_EQ(memory_->reserved_bytes(), reserved);
  EXPECT_TRUE(held.read() == held.content);
  script_->Release(held);
  script_->Release(next);
  channel_->Bye();
  again.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  // Another batch may have been on its way.
  EXPECT_EQ(memory_->reserved_bytes(), channel_->held_bytes());
}

TEST_F(FeedTest, AFeedThatWaitsForCreditsIsStoppedAtOnce) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain);
  for (int i = 0; i < kCredits; ++i) script_->Next();
  feed->stop.request_stop();
  thread.join();
  EXPECT_TRUE(absl::IsCancelled(feed->report.status()))
      << feed->report.status();
  EXPECT_EQ(channel_->num_delivered(), kCredits);
}

TEST_F(FeedTest, AFeedIsStoppedAloneInAGroup) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->Open(feed::Split::kTrain);
  for (int i = 0; i < kCredits; ++i) script_->Next();
  feed->stop.request_stop();
  threads.clear();
  EXPECT_TRUE(absl::IsCancelled(feed->report.status()))
      << feed->report.status();
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, DigestAlone(*model));
}

TEST_F(FeedTest, AClientThatGoesHarmsNoOther) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  // Once the client has gone, time passes: the feed waits for another.
  HoldModels([&](const train::StepPosition& position) {
    if (position.epoch == 0 && position.batch == kTrainBatches - 1) {
      client_clock_.Advance(feed::Channel::kPatienceSeconds);
    }
  });
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  script_->Open(feed::Split::kTrain);
  for (int i = 0; i < kCredits; ++i) script_->Next();
  channel_->Disconnect(*script_);
  threads.clear();
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, DigestAlone(*model));
  EXPECT_EQ(WaitCauseOf(feed->report.status()), WaitCause::kClient)
      << feed->report.status();
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

// The error of the feed that comes first must not be the others'.
TEST_F(FeedTest, AClientThatGoesAsTheGroupBeginsHarmsNoOther) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  model->options.join = true;
  script_->Open(feed::Split::kTrain, /*epoch=*/1);
  // Between the feed's first wish and the start of the run.
  model->observer.on_first_epoch_key = [&] {
    channel_->Disconnect(*script_);
    client_clock_.Advance(feed::Channel::kPatienceSeconds);
  };
  const auto other = std::make_shared<Script>(*channel_);
  feed->observer.on_running = [&] {
    EXPECT_TRUE(channel_->Connect(other).ok());
  };
  std::vector<std::jthread> threads = Start({feed.get(), model.get()});
  other->AwaitWelcome();
  other->Open(feed::Split::kTrain, /*epoch=*/1);
  EXPECT_THAT(other->Take(), SizeIs(kTrainBatches));
  channel_->Bye();
  threads.clear();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->observer.first_epoch_key, 1);
  EXPECT_EQ(model->report->loss_digest,
            DigestAlone(*model, /*first_epoch_key=*/1));
}

TEST_F(FeedTest, ALayoutThatBatchesDoNotHaveEndsTheFeedAlone) {
  const std::unique_ptr<Job> feed = NewFeed();
  const std::unique_ptr<Job> model = NewJob("a");
  for (Job* job : {feed.get(), model.get()}) job->options.data.once = false;
  script_->Open(feed::Split::kTrain);
  Start({feed.get(), model.get()}).clear();
  EXPECT_TRUE(absl::IsInvalidArgument(feed->report.status()))
      << feed->report.status();
  EXPECT_THAT(std::string(feed->report.status().message()),
              HasSubstr("subgraph"));
  ASSERT_TRUE(model->report.ok()) << model->report.status();
  EXPECT_EQ(model->report->loss_digest, DigestAlone(*model));
}

TEST_F(FeedTest, EpochsOfTheClientAreReportedBeforeItsJobEnds) {
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->Open(feed::Split::kTrain);
  script_->Take();
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    ASSERT_TRUE(channel_
                    ->AddEpoch({.epoch = epoch,
                                .loss = 1.0 / epoch,
                                .valid_metric = 0.25 * epoch})
                    .ok());
  }
  channel_->Bye();
  thread.join();
  ASSERT_TRUE(feed->report.ok()) << feed->report.status();
  ASSERT_THAT(feed->observer.epochs, SizeIs(3));
  EXPECT_EQ(feed->observer.epochs[2].epoch, 3u);
  EXPECT_EQ(feed->observer.epochs[2].loss, 1.0 / 3);
  EXPECT_EQ(feed->observer.epochs[2].valid_metric, 0.75);
  EXPECT_EQ(feed->observer.epochs[2].training.batches, kTrainBatches);
}

TEST_F(FeedTest, EpochsOfTheClientAreReportedBeforeItsJobWaits) {
  const std::unique_ptr<Job> feed = NewFeed();
  script_->Open(feed::Split::kTrain);
  ASSERT_TRUE(channel_->AddEpoch({.epoch = 1, .loss = 0.5}).ok());
  script_->Close();
  channel_->Yield();
  Run(*feed);
  EXPECT_EQ(WaitCauseOf(feed->report.status()), WaitCause::kClient)
      << feed->report.status();
  EXPECT_THAT(feed->observer.epochs, SizeIs(1));
}

// Its job may be in the queue for long.
TEST_F(FeedTest, AClientThatWaitsForItsWelcomeIsNotAway) {
  client_clock_.Advance(3600);
  const std::unique_ptr<Job> feed = NewFeed();
  std::jthread thread([&] { Run(*feed); });
  script_->AwaitWelcome();
  script_->Open(feed::Split::kValid);
  EXPECT_THAT(script_->Take(), SizeIs(2));
  channel_->Bye();
  thread.join();
  EXPECT_TRUE(feed->report.ok()) << feed->report.status();
}

}  // namespace
}  // namespace hearth::job
