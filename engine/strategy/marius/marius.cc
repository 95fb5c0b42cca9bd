// A training pass:
//
//   1. PlanStates: the states of the buffer during the pass.
//   2. For each state: enter it (read what is missing), and choose the edges
//      between the nodes in memory (NewSubgraph).
//   3. Sample, assemble and train the state's batches, while another thread
//      reads partitions of the next state into spare slots.

#include "engine/strategy/marius/marius.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/assemble.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/marius/buffer_plan.h"
#include "engine/strategy/marius/partition_buffer.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

namespace {

// Batches that may wait between the stages. Assembled ones are big: one waits
// while one is trained.
constexpr int kSampledWaiting = 2;
constexpr int kAssembledWaiting = 1;

constexpr char kBufferLevel[] = "partition_buffer";

// Shards with input rows at a time: one is assembled, the shards of one batch
// wait, those of another are with the trainer.
int AssembledAtOnce(int shards) { return 1 + (kAssembledWaiting + 1) * shards; }

class MariusStrategy final : public Strategy {
 public:
  MariusStrategy(const MariusOptions& options, const PipelineOptions& pipeline,
                 const store::Dataset& dataset,
                 const StrategyResources& resources)
      : options_(options),
        pipeline_options_(pipeline),
        dataset_(dataset),
        clock_(resources.clock),
        row_check_(resources.row_check),
        format_(store::CommonFormat(dataset.manifest())) {}

  absl::Status Open(const StrategyResources& resources) {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset_.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(
        topology_,
        LoadSampledTopology(dataset_, store::Residency::kMappedWithReadAhead,
                            pipeline_options_, resources));
    HEARTH_ASSIGN_OR_RETURN(features_, dataset_.ScanFeatures(resources.stop));
    partitions_ = NodePartitions::Make(*topology_.topology, format_.row_bytes(),
                                       options_.partition_buffer_bytes,
                                       options_.partitions);
    buffer_.emplace(features_, *partitions_);
    return absl::OkStatus();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    return pass.evaluates ? Evaluate(pass, consumer, std::move(stop), report)
                          : Train(pass, consumer, std::move(stop), report);
  }

  void Rest() override { input_buffers_.Clear(); }

 private:
  // A state of a pass that is to be run, and what surrounds it.
  struct Turn {
    const Pass& pass;
    const PassStates& plan;
    size_t state = 0;
    const Consumer& consumer;
    ThreadTeam& assemblers;
    std::stop_token stop;
  };

  absl::Status Train(const Pass& pass, const Consumer& consumer,
                     std::stop_token stop, PassReport& report) {
    HEARTH_ASSIGN_OR_RETURN(
        const PassStates plan,
        PlanStates({.topology = *topology_.topology,
                    .partitions = *partitions_,
                    .row_bytes = format_.row_bytes(),
                    .buffer_bytes = options_.partition_buffer_bytes,
                    .batch_size = pass.batch_size,
                    .data_seed = pass.sampler.data_seed,
                    .epoch_key = pass.epoch_key},
                   SeedsOf(pass)));
    if (pass.history != nullptr && plan.states.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "history: must be off for strategy marius where its buffer changes "
          "within an epoch, as here ",
          plan.states.size() - 1, " times"));
    }
    if (plan.states.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(buffer_->Resize(plan.num_slots, plan.most_kept));
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> assemblers,
                            ThreadTeam::Create(pipeline_options_.extractors));
    // What was loaded ahead for a state counts as its own.
    LoadTally ahead;
    for (size_t i = 0; i < plan.states.size(); ++i) {
      if (plan.states[i].end_batch <= pass.first_batch) continue;
      HEARTH_RETURN_IF_ERROR(RunState(
          {pass, plan, i, consumer, *assemblers, stop}, ahead, report));
    }
    return absl::OkStatus();
  }

  // Steps 2 and 3. `ahead` has the reads for this state before it, and then
  // those for the next one.
  absl::Status RunState(const Turn& turn, LoadTally& ahead,
                        PassReport& report) {
    const BufferState& state = turn.plan.states[turn.state];
    LoadTally tally = std::exchange(ahead, {});
    const double begin = clock_.SteadySeconds();
    subgraph_.reset();
    HEARTH_RETURN_IF_ERROR(buffer_->Enter(state, turn.stop, tally));
    const double loaded = clock_.SteadySeconds();
    HEARTH_ASSIGN_OR_RETURN(
        subgraph_,
        NewSubgraph(*topology_.topology, buffer_->row_of(), turn.stop));
    const double chosen = clock_.SteadySeconds();
    PassReport part;
    part.bytes_read = tally.bytes;
    part.read_ops = tally.reads;
    part.io_wait_seconds = loaded - begin;
    part.rows_read = 0;
    part.hits = {{.level = kBufferLevel, .rows = 0}};
    part.phases = {{.name = "load", .seconds = loaded - begin},
                   {.name = "choose_edges", .seconds = chosen - loaded}};
    absl::Status loaded_ahead;
    const PassReport before = report;
    const auto add_part = [&] {
      report = before;
      Accumulate(part, report);
    };
    std::jthread loader([&](const std::stop_token& ended) {
      if (turn.state + 1 < turn.plan.states.size()) {
        loaded_ahead =
            buffer_->LoadAhead(turn.plan.states[turn.state + 1], ended, ahead);
      }
    });
    const absl::Status delivered = DeliverState(turn, add_part, part);
    const double done = clock_.SteadySeconds();
    if (!delivered.ok()) loader.request_stop();
    loader.join();
    part.phases[0].seconds += clock_.SteadySeconds() - done;
    *part.io_wait_seconds = part.phases[0].seconds;
    part.seconds = clock_.SteadySeconds() - begin;
    add_part();
    HEARTH_RETURN_IF_ERROR(delivered);
    return loaded_ahead;
  }

  // Runs the batches of the state through a pipeline of their own. Calls
  // `add_part` before each is consumed.
  absl::Status DeliverState(const Turn& turn,
                            absl::FunctionRef<void()> add_part,
                            PassReport& part) {
    const Pass& pass = turn.pass;
    const BufferState& state = turn.plan.states[turn.state];
    std::vector<pipeline::Stage> stages =
        SampleStages(pass, turn.plan.seeds,
                     SampleSource{.topology = *subgraph_, .labels = labels_},
                     {.threads = pipeline_options_.samplers,
                      .queue_capacity = kSampledWaiting});
    stages.push_back(AssembleStage(pass, turn.assemblers));
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline(std::move(stages), "train", clock_);
    const int64_t first = std::max(state.first_batch, pass.first_batch);
    Delivery delivery = DeliveryOf(pass);
    delivery.range = {.first = first * pass.shards,
                      .count = (state.end_batch - first) * pass.shards};
    delivery.count = [](const SampledBatch& batch, PassReport& counted) {
      counted.hits[0].rows += batch.num_rows();
    };
    return Deliver(
        *pipeline, delivery,
        [&](absl::Span<const train::BatchView> shards) {
          add_part();
          return turn.consumer(shards);
        },
        turn.stop, part);
  }

  pipeline::Stage AssembleStage(const Pass& pass, ThreadTeam& assemblers) {
    return {.name = "assemble",
            .queue_capacity = QueueCapacity(pass, kAssembledWaiting),
            .work = [this, &assemblers](int /*thread*/, pipeline::Item& item) {
              return Assemble(static_cast<SampledBatch&>(item), assemblers);
            }};
  }

  absl::Status Assemble(SampledBatch& batch, ThreadTeam& assemblers) {
    HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                            batch.TakeInputs(format_.dim, input_buffers_));
    const cache::StoredRows rows = {.data = buffer_->rows().rows(),
                                    .dtype = format_.dtype,
                                    .dim = format_.dim};
    const absl::Span<const store::NodeId> nodes = batch.sample().input_nodes;
    assemblers.RunRanges(std::ssize(nodes), cache::kRowsPerPart,
                         [&](int64_t first, int64_t count) {
                           std::array<int64_t, cache::kRowsPerPart> slots;
                           for (int64_t i = 0; i < count; ++i) {
                             slots[i] = buffer_->row_of()[nodes[first + i]];
                           }
                           cache::AssembleRows(
                               rows, absl::MakeConstSpan(slots).first(count),
                               inputs + first * format_.dim);
                         });
    return absl::OkStatus();
  }

  // A pass over the whole graph, whose rows are mapped.
  absl::Status Evaluate(const Pass& pass, const Consumer& consumer,
                        std::stop_token stop, PassReport& report) {
    if (mapped_ == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(
          mapped_, dataset_.LoadFeatures(store::Residency::kMapped, stop));
    }
    const std::vector<store::NodeId> seeds = SeedsOf(pass);
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> assemblers,
                            ThreadTeam::Create(pipeline_options_.extractors));
    std::vector<pipeline::Stage> stages =
        SampleStages(pass, seeds, topology_.With(labels_),
                     {.threads = pipeline_options_.samplers,
                      .queue_capacity = kSampledWaiting});
    stages.push_back({.name = "assemble",
                      .queue_capacity = QueueCapacity(pass, kAssembledWaiting),
                      .work = [&](int /*thread*/, pipeline::Item& item) {
                        return AssembleAddressable(
                            *mapped_, row_check_.get(), *assemblers,
                            input_buffers_, static_cast<SampledBatch&>(item));
                      }});
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline(std::move(stages), "train", clock_);
    Delivery delivery = DeliveryOf(pass);
    delivery.range = ShardsOf(pass, std::ssize(seeds));
    return Deliver(*pipeline, delivery, consumer, std::move(stop), report);
  }

  Delivery DeliveryOf(const Pass& pass) const {
    return {.clock = clock_,
            .range = {},
            .shards = pass.shards,
            .input_pools = pass.input_pools,
            .row_bytes = format_.row_bytes()};
  }

  const MariusOptions options_;
  const PipelineOptions pipeline_options_;
  const store::Dataset& dataset_;
  const Clock& clock_;
  const std::shared_ptr<const io::RowCheck> row_check_;
  const store::RowFormat format_;
  store::Labels labels_;
  SampledTopology topology_;
  store::ScannedFeatures features_;
  std::optional<NodePartitions> partitions_;
  std::optional<PartitionBuffer> buffer_;
  // The graph in memory, during a training pass.
  std::unique_ptr<store::LoadedTopology> subgraph_;
  // All rows, for evaluation; null until the first one.
  std::unique_ptr<store::LoadedFeatures> mapped_;
  BufferPool input_buffers_;
};

// No more than is of use.
uint64_t BufferBytes(const MariusOptions& options, const MemoryBasis& basis) {
  return std::min(options.partition_buffer_bytes, AllMariusBytes(basis));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewMariusStrategy(
    const MariusOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  if (options.partitions < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "marius: partitions must be at least 0, is ", options.partitions));
  }
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  auto strategy =
      std::make_unique<MariusStrategy>(options, pipeline, dataset, resources);
  HEARTH_RETURN_IF_ERROR(strategy->Open(resources));
  return strategy;
}

uint64_t AllMariusBytes(const MemoryBasis& basis) {
  return static_cast<uint64_t>(basis.num_nodes()) *
             static_cast<uint64_t>(basis.row_bytes()) +
         basis.indices_bytes();
}

absl::StatusOr<MemoryEstimate> EstimateMariusMemory(
    const MariusOptions& options, const MemoryBasis& basis) {
  MemoryEstimate estimate;
  // The indptr of the whole graph, and of the part in memory.
  estimate.Add("topology", 2 * basis.indptr_bytes(), /*kept=*/true);
  estimate.Add("cache",
               BufferBytes(options, basis) +
                   PartitionBuffer::OverheadBytes(basis.num_nodes()),
               /*kept=*/true);
  const int assembled = AssembledAtOnce(basis.shards);
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.pipeline.samplers +
                         kSampledWaiting * basis.shards + assembled,
              .assembled = assembled},
             estimate);
  return estimate;
}

std::vector<BudgetOf<MariusOptions>> MariusBudgets(const MariusOptions& options,
                                                   const MemoryBasis& basis) {
  std::vector<BudgetOf<MariusOptions>> budgets = {
      ThreadBudgets<MariusOptions>(basis.pipeline).back()};
  budgets.push_back(
      {.budget = CacheBudget("partition-buffer", options.partition_buffer_bytes,
                             AllMariusBytes(basis)),
       .set = [](uint64_t bytes, Configuration<MariusOptions>& chosen) {
         chosen.strategy.partition_buffer_bytes = bytes;
       }});
  return budgets;
}

}  // namespace hearth::strategy
