#include "engine/strategy/gnndrive/gnndrive.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/assemble.h"
#include "engine/cache/feature_buffer.h"
#include "engine/cache/row_memory.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/labels.h"
#include "engine/strategy/gnndrive/extractor.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"

// A pass:
//
//  1. The feature buffer is replaced if it is too small for the largest batch
//     that was measured (Mb). Otherwise it stays from pass to pass, with all
//     its rows.
//  2. Samplers fill the extracting queue.
//  3. Extractors take batches from that queue and bring their rows into the
//     feature buffer (extractor.h), claiming them in turns. A batch in the
//     training queue is an alias list: its rows stay in the buffer.
//  4. A team of threads assembles one batch at a time: waits for rows that
//     other batches were loading when this one claimed them, copies the rows
//     from their slots into the matrix that the trainer takes, and releases the
//     slots at once. It is the paper's releaser. So batches hold slots from
//     extraction to assembly and never during the trainer's step; this is why a
//     reserve of Ne x Mb suffices for Ne busy extractors.
//  5. The trainer takes the assembled batch, on the caller's thread.
//
// An error anywhere, or a stop, requests a stop of the pass, which ends every
// wait for slots, rows, turns and reads.

namespace hearth::strategy {

namespace {

constexpr char kLevel[] = "cpu_cache";
// Assembled batches are big: one waits while one is trained.
constexpr int kAssembledWaiting = 1;

SlotBudget BudgetFor(const GnndriveOptions& options,
                     const PipelineOptions& pipeline,
                     const io::RowLayout& layout) {
  return {.cpu_cache_bytes = options.cpu_cache_bytes,
          .staging_bytes = options.staging_bytes,
          .row_bytes = layout.row_bytes,
          .num_rows = layout.num_rows,
          .extractors = pipeline.extractors};
}

class GnndriveStrategy final : public Strategy {
 public:
  GnndriveStrategy(const GnndriveOptions& options,
                   const PipelineOptions& pipeline,
                   const StrategyResources& resources)
      : options_(options),
        pipeline_options_(pipeline),
        resources_(resources),
        extractors_(pipeline.extractors) {}

  absl::Status Open(const store::Dataset& dataset) {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(
        topology_, LoadSampledTopology(dataset, store::Residency::kMapped,
                                       pipeline_options_, resources_));
    HEARTH_ASSIGN_OR_RETURN(
        features_, dataset.OpenFeatures({.buffered = options_.buffered_reads}));
    return absl::OkStatus();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    const std::vector<store::NodeId> seeds = SeedsOf(pass);
    report = {};
    HEARTH_RETURN_IF_ERROR(PrepareBuffer(pass));
    report.hits = {{kLevel, 0}};
    report.rows_read = 0;
    report.bytes_read = 0;
    report.read_ops = 0;
    report.io_wait_seconds = 0;
    Extraction extraction(options_.reorder
                              ? cache::ClaimTurns::Order::kAny
                              : cache::ClaimTurns::Order::kByNumber,
                          pass.first_batch * pass.shards);
    HEARTH_RETURN_IF_ERROR(StartExtractors(extraction));
    HEARTH_ASSIGN_OR_RETURN(extraction.assemblers,
                            ThreadTeam::Create(extractors_));
    std::vector<pipeline::Stage> stages =
        SampleStages(pass, seeds, topology_.With(labels_),
                     {.threads = pipeline_options_.samplers,
                      .queue_capacity = options_.sample_queue});
    stages.push_back(ExtractStage(pass, extraction));
    stages.push_back(AssembleStage(pass, extraction));
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline(std::move(stages), "train", resources_.clock,
                              options_.reorder ? pipeline::Order::kAsDone
                                               : pipeline::Order::kByNumber);
    return Deliver(*pipeline, MakeDelivery(pass, seeds), consumer,
                   std::move(stop), report);
  }

  void Rest() override {
    buffers_.Clear();
    topology_.Rest();
  }

 private:
  // State of a pass for its extractors and its assembling threads.
  struct Extraction {
    Extraction(cache::ClaimTurns::Order order, int64_t first_batch)
        : turns(order, first_batch) {}

    cache::ClaimTurns turns;
    std::stop_source stop;
    std::vector<std::unique_ptr<Extractor>> extractors;
    std::unique_ptr<ThreadTeam> assemblers;
  };

  // Step 1.
  absl::Status PrepareBuffer(const Pass& pass) {
    if (pass.batches.bound.nodes.empty()) {
      return absl::FailedPreconditionError(
          "strategy gnndrive: the batches of the pass were not measured");
    }
    HEARTH_ASSIGN_OR_RETURN(
        const SlotPlan plan,
        PlanSlots(BudgetFor(options_, pipeline_options_, features_.layout),
                  pass.batches));
    return ResizeBuffer(plan);
  }

  absl::Status ResizeBuffer(const SlotPlan& plan) {
    // With staging_bytes given, larger batches mean fewer extractors.
    extractors_ = std::min(extractors_, plan.extractors);
    if (buffer_ != nullptr && plan.needed_slots <= buffer_->num_slots()) {
      return absl::OkStatus();
    }
    const int64_t slots = plan.num_slots();
    buffer_.reset();  // Both at once would exceed the budget.
    HEARTH_ASSIGN_OR_RETURN(
        cache::SlotArena arena,
        cache::SlotArena::Make(slots, features_.layout.row_bytes));
    buffer_ = std::make_unique<cache::FeatureBuffer>(std::move(arena));
    return absl::OkStatus();
  }

  absl::Status StartExtractors(Extraction& extraction) {
    for (int i = 0; i < extractors_; ++i) {
      HEARTH_ASSIGN_OR_RETURN(
          std::unique_ptr<Extractor> extractor,
          Extractor::Create(features_, resources_.row_check.get(),
                            resources_.read_queues, resources_.clock,
                            static_cast<size_t>(options_.io_depth)));
      extraction.extractors.push_back(std::move(extractor));
    }
    return absl::OkStatus();
  }

  // Step 3.
  pipeline::Stage ExtractStage(const Pass& pass, Extraction& extraction) {
    return {.name = "extract",
            .width = extractors_,
            .queue_capacity = QueueCapacity(pass, options_.train_queue),
            .work =
                [this, &extraction](int thread, pipeline::Item& item) {
                  return Extract(extraction, *extraction.extractors[thread],
                                 static_cast<GnndriveBatch&>(item));
                },
            .interrupt = [&extraction] { extraction.stop.request_stop(); }};
  }

  absl::Status Extract(Extraction& extraction, Extractor& extractor,
                       GnndriveBatch& batch) {
    const Extractor::Shared shared{.buffer = *buffer_,
                                   .turns = extraction.turns,
                                   .stop = extraction.stop.get_token()};
    if (batch.num_rows() <= buffer_->num_slots()) {
      return extractor.Extract(shared, batch);
    }
    // Larger than any measured batch: assembled here, part by part.
    HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                            batch.TakeInputs(features_.dim, buffers_));
    return extractor.ExtractInParts(
        shared, batch,
        [&](int64_t first, const cache::FeatureBuffer::Pins& pins) {
          CopyRows(pins.slots(), inputs + first * features_.dim);
        });
  }

  // Step 4.
  pipeline::Stage AssembleStage(const Pass& pass, Extraction& extraction) {
    return {.name = "assemble",
            .width = 1,
            .queue_capacity = QueueCapacity(pass, kAssembledWaiting),
            .work =
                [this, &extraction](int thread, pipeline::Item& item) {
                  return Assemble(extraction,
                                  static_cast<GnndriveBatch&>(item));
                },
            .interrupt = [&extraction] { extraction.stop.request_stop(); }};
  }

  absl::Status Assemble(Extraction& extraction, GnndriveBatch& batch) {
    if (batch.num_rows() > buffer_->num_slots()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(batch.pins.AwaitRows(extraction.stop.get_token()));
    HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                            batch.TakeInputs(features_.dim, buffers_));
    extraction.assemblers->RunRanges(
        batch.num_rows(), cache::kRowsPerPart,
        [&](int64_t first, int64_t count) {
          CopyRows(batch.pins.slots().subspan(first, count),
                   inputs + first * features_.dim);
        });
    batch.pins.Release();
    return absl::OkStatus();
  }

  void CopyRows(absl::Span<const int64_t> slots, float* out) const {
    cache::AssembleRows(cache::StoredRows{.data = buffer_->arena().rows(),
                                          .dtype = features_.dtype,
                                          .dim = features_.dim},
                        slots, out);
  }

  Delivery MakeDelivery(const Pass& pass,
                        const std::vector<store::NodeId>& seeds) const {
    return {.clock = resources_.clock,
            .range = ShardsOf(pass, static_cast<int64_t>(seeds.size())),
            .shards = pass.shards,
            .requests = pass.requests,
            .input_pools = pass.input_pools,
            .row_bytes = features_.layout.row_bytes,
            .make =
                [](int64_t number) {
                  return std::make_unique<GnndriveBatch>(number);
                },
            .count = Count};
  }

  static void Count(const SampledBatch& sampled, PassReport& report) {
    const auto& batch = static_cast<const GnndriveBatch&>(sampled);
    const io::ReadTally& tally = batch.tally;
    report.hits[0].rows += batch.num_rows() - batch.rows_missed;
    *report.rows_read += tally.rows;
    AddReads(tally, report);
  }

  const GnndriveOptions options_;
  const PipelineOptions pipeline_options_;
  const StrategyResources resources_;
  store::Labels labels_;
  SampledTopology topology_;
  store::StoredFeatures features_;
  // The number asked for, or the least that a SlotPlan so far had.
  int extractors_;
  std::unique_ptr<cache::FeatureBuffer> buffer_;
  BufferPool buffers_;
};

absl::Status Validate(const GnndriveOptions& options,
                      const PipelineOptions& pipeline) {
  for (const auto& [name, value] : {std::pair{"samplers", pipeline.samplers},
                                    {"extractors", pipeline.extractors},
                                    {"sample_queue", options.sample_queue},
                                    {"train_queue", options.train_queue},
                                    {"io_depth", options.io_depth}}) {
    if (value >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("gnndrive: ", name, " must be at least 1, is ", value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewGnndriveStrategy(
    const GnndriveOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(Validate(options, pipeline));
  auto strategy =
      std::make_unique<GnndriveStrategy>(options, pipeline, resources);
  HEARTH_RETURN_IF_ERROR(strategy->Open(dataset));
  return strategy;
}

absl::StatusOr<MemoryEstimate> EstimateGnndriveMemory(
    const GnndriveOptions& options, const MemoryBasis& basis) {
  const io::RowLayout layout = {
      .row_bytes = static_cast<uint32_t>(basis.row_bytes()),
      .num_rows = basis.num_nodes()};
  HEARTH_ASSIGN_OR_RETURN(
      const SlotPlan plan,
      PlanSlots(BudgetFor(options, basis.pipeline, layout), basis.batches));
  const auto row_bytes = static_cast<uint64_t>(layout.row_bytes);
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  MemoryEstimate estimate;
  estimate.Add("topology", basis.sampled_topology_bytes(), /*kept=*/true);
  estimate.Add("staging",
               static_cast<uint64_t>(plan.reserved_slots) * row_bytes +
                   cache::SlotTable::MemoryBytes(plan.num_slots()),
               /*kept=*/true);
  estimate.Add("cache", static_cast<uint64_t>(plan.cache_slots) * row_bytes,
               /*kept=*/true);
  // Of each batch being read: missing nodes, their positions, arrived rows, and
  // the plan of the reads.
  const uint64_t reading = rows * (3 * sizeof(int64_t) + io::kPlanBytesPerRow) +
                           Extractor::StagingBytes(row_bytes);
  estimate.Add("reads", static_cast<uint64_t>(plan.extractors) * reading);
  // Shards with input rows: one is assembled, those of one batch wait, those of
  // another are with the trainer.
  const int assembled = 1 + (kAssembledWaiting + 1) * basis.shards;
  const int extracted = plan.extractors + options.train_queue * basis.shards;
  AddBatches(
      basis,
      {.samplers = basis.pipeline.samplers,
       .sampled = basis.pipeline.samplers +
                  options.sample_queue * basis.shards + extracted + assembled,
       .assembled = assembled},
      estimate);
  // Slots of each extracted batch, and of its rows that other batches are
  // loading.
  estimate.Add("pins", static_cast<uint64_t>(extracted + 1) * rows * 2 *
                           sizeof(int64_t));
  return estimate;
}

std::vector<BudgetOf<GnndriveOptions>> GnndriveBudgets(
    const GnndriveOptions& options, const MemoryBasis& basis) {
  using Chosen = Configuration<GnndriveOptions>;
  const auto queue = [&](std::string option, int GnndriveOptions::*length) {
    return BudgetOf<GnndriveOptions>{
        .budget = {.option = std::move(option),
                   .unit = BudgetUnit::kBatches,
                   .asked = static_cast<uint64_t>(options.*length),
                   .least = 1},
        .set = [length](uint64_t batches, Chosen& chosen) {
          chosen.strategy.*length = static_cast<int>(batches);
        }};
  };
  std::vector<BudgetOf<GnndriveOptions>> budgets = {
      queue("sample-queue", &GnndriveOptions::sample_queue),
      queue("train-queue", &GnndriveOptions::train_queue)};
  for (auto& threads : ThreadBudgets<GnndriveOptions>(basis.pipeline)) {
    budgets.push_back(std::move(threads));
  }
  budgets.push_back({.budget = CacheBudget("cpu-cache", options.cpu_cache_bytes,
                                           basis.all_rows_bytes()),
                     .set = [](uint64_t bytes, Chosen& chosen) {
                       chosen.strategy.cpu_cache_bytes = bytes;
                     }});
  // The default is one batch for each extractor.
  if (options.staging_bytes > 0) {
    const auto batch =
        static_cast<uint64_t>(basis.batches.WithMargin().num_inputs()) *
        static_cast<uint64_t>(basis.row_bytes());
    budgets.push_back(
        {.budget = {.option = "staging",
                    .asked = options.staging_bytes,
                    .least = std::min(batch, options.staging_bytes)},
         .set = [](uint64_t bytes, Chosen& chosen) {
           chosen.strategy.staging_bytes = bytes;
         }});
  }
  return budgets;
}

}  // namespace hearth::strategy
