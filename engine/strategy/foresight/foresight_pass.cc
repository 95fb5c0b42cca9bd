#include "engine/strategy/foresight/foresight_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/cache/assemble.h"
#include "engine/strategy/packing/batch_code.h"
#include "engine/strategy/sampling.h"

// The stages:
//
//  graph      The sample of a shard comes from the samples of its pass; its
//             labels are gathered.
//  features   Its plan and the rows that the cache lacks are read.
//  assemble   One shard after the other, in order, by a team of threads, or by
//             the GPU that has slots: widens rows of the cache and rows that
//             were read to their places, unless layers read them where they are
//             (Pass::rows_in_place), then copies to the cache the rows that
//             enter it. A GPU on which all models train keeps the input rows.
//
// Rows enter slots that no shard reads any more: a plan gives them slots whose
// last reader came kReuseBatches before, and all but the last AssembledAtOnce
// shards are released. Slots are arranged anew only at the beginning of a pass,
// when all shards of the one before are released.

namespace hearth::strategy {
namespace {

// Both grow with the shards of a batch, the latter faster.
static_assert(ForesightPass::AssembledAtOnce(1) <= kReuseBatches);

void CountBatch(const ForesightBatch& batch, PassReport& report) {
  AddReads(batch.tally, report);
  report.rows_read = report.rows_read.value_or(0) + batch.rows_read;
  if (report.hits.size() > 1) report.hits.front().rows += batch.gpu_hits;
  report.hits.back().rows +=
      batch.num_rows() - batch.rows_read - batch.gpu_hits;
}

}  // namespace

ForesightPass::ForesightPass(const ForesightPassContext& context,
                             const Pass& pass, int64_t position)
    : context_(context),
      pass_(pass),
      position_(position),
      first_shard_(pass.first_batch * pass.shards),
      pass_index_(context.generations.timeline().At(position).pass),
      seeds_(SeedsOf(pass)),
      sample_buffers_(static_cast<size_t>(context.loaders)) {
  for (int i = 0; i <= context.loaders; ++i) {
    row_loaders_.push_back(std::make_unique<RowLoader>(context.source));
  }
}

absl::Status ForesightPass::Run(const Strategy::Consumer& consumer,
                                std::stop_token stop, PassReport& report) {
  report.bytes_read = 0;
  report.read_ops = 0;
  report.io_wait_seconds = 0;
  report.rows_read = 0;
  if (context_.gpu_slots.has_value()) {
    report.hits.push_back({.level = "gpu_cache"});
  }
  report.hits.push_back({.level = "cpu_cache"});
  HEARTH_ASSIGN_OR_RETURN(assemblers_, ThreadTeam::Create(context_.loaders));
  const auto stage = [&](const char* name, int width, int waiting,
                         absl::Status (ForesightPass::*work)(int,
                                                             ForesightBatch&)) {
    return pipeline::Stage{
        .name = name,
        .width = width,
        .queue_capacity = QueueCapacity(pass_, waiting),
        .work =
            [this, work](int thread, pipeline::Item& item) {
              return (this->*work)(thread, static_cast<ForesightBatch&>(item));
            },
        .interrupt = [this] { abandon_.request_stop(); }};
  };
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline({stage("graph", context_.loaders, kLoadedWaiting,
                                   &ForesightPass::LoadGraph),
                             stage("features", context_.loaders, kLoadedWaiting,
                                   &ForesightPass::LoadRows),
                             stage("assemble", 1, 1, &ForesightPass::Assemble)},
                            "train", context_.clock);
  const absl::Status status = Deliver(
      *pipeline,
      {.clock = context_.clock,
       .range = ShardsOf(pass_, std::ssize(seeds_)),
       .shards = pass_.shards,
       .input_pools = pass_.input_pools,
       .row_bytes = context_.source.features.layout.row_bytes,
       .make =
           [](int64_t number) {
             return std::make_unique<ForesightBatch>(number);
           },
       .count =
           [](const SampledBatch& shard, PassReport& counted) {
             CountBatch(static_cast<const ForesightBatch&>(shard), counted);
           }},
      consumer, std::move(stop), report);
  if (context_.cache.slots.gpu() != nullptr && !status.ok() &&
      !absl::IsCancelled(status)) {
    // Rows may not have reached the GPU.
    context_.cache.slots.Clear();
    context_.cache.generations = nullptr;
  }
  direct_reads_.Correct(context_.source.features.layout.row_bytes,
                        context_.prices);
  return status;
}

absl::Status ForesightPass::LoadGraph(int thread, ForesightBatch& batch) {
  HEARTH_ASSIGN_OR_RETURN(
      batch.generation,
      context_.generations.At(PositionOf(batch), abandon_.get_token()));
  SampleSpool& samples = batch.generation->SamplesOf(pass_index_);
  cache::AlignedBuffer& buffer = sample_buffers_[static_cast<size_t>(thread)];
  HEARTH_RETURN_IF_ERROR(
      buffer.Resize(samples.sizes()[static_cast<size_t>(batch.number())]));
  const absl::Span<std::byte> bytes(buffer.data(), buffer.size());
  const double start = context_.clock.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(batch.generation->Checked(
      samples.Read(batch.number(), bytes), pass_index_));
  batch.tally.AddRead(bytes.size(), context_.clock.SteadySeconds() - start);
  auto sample = DecodeBatch(bytes, KeyOfShard(pass_, batch.number()));
  HEARTH_RETURN_IF_ERROR(
      batch.generation->Checked(sample.status(), pass_index_));
  batch.sample() = *std::move(sample);
  TakeLabels(pass_, seeds_, context_.labels, batch);
  return absl::OkStatus();
}

absl::Status ForesightPass::LoadRows(int thread, ForesightBatch& batch) {
  const Generation& generation = *batch.generation;
  const GenerationReader& reader = generation.reader();
  const int64_t shard = PositionOf(batch) - generation.span().begin;
  const uint64_t plan_bytes = reader.PlanMemory(shard);
  const uint64_t rows_bytes = reader.PackMemory(shard);
  batch.read = context_.reads.Take();
  cache::AlignedBuffer& buffer = batch.read.buffer();
  HEARTH_RETURN_IF_ERROR(buffer.Resize(plan_bytes + rows_bytes));
  const absl::Span<std::byte> bytes(buffer.data(), buffer.size());
  const double start = context_.clock.SteadySeconds();
  const auto plan = reader.ReadPlan(shard, bytes.first(plan_bytes));
  HEARTH_RETURN_IF_ERROR(generation.Checked(plan.status(), pass_index_));
  batch.plan = *plan;
  batch.rows = buffer.data() + plan_bytes;
  batch.rows_read = std::ssize(plan->reads);
  if (std::ssize(plan->addresses) != batch.num_rows()) {
    return generation.Checked(
        absl::DataLossError(absl::StrCat(
            "plan ", generation.name(), ": shard ", shard, " has ",
            plan->addresses.size(), " rows for ", batch.num_rows(), " nodes")),
        pass_index_);
  }
  if (reader.index().fetching == Fetching::kPacked) {
    HEARTH_RETURN_IF_ERROR(generation.Checked(
        reader.ReadPack(shard, bytes.subspan(plan_bytes)), pass_index_));
    batch.tally.AddRead(plan_bytes + rows_bytes,
                        context_.clock.SteadySeconds() - start);
    return absl::OkStatus();
  }
  batch.tally.AddRead(plan_bytes, context_.clock.SteadySeconds() - start);
  direct_reads_.Begin(context_.clock.SteadySeconds());
  const absl::Status status = row_loaders_[static_cast<size_t>(thread)]->Read(
      plan->reads, buffer.data() + plan_bytes, abandon_.get_token(),
      batch.tally);
  direct_reads_.End(context_.clock.SteadySeconds(), batch.rows_read);
  return status;
}

absl::Status ForesightPass::Arrange(ForesightBatch& batch, int64_t position) {
  PlannedCache& cache = context_.cache;
  const GenerationSpan& span = batch.generation->span();
  const bool is_next =
      cache.generations == &context_.generations && cache.position == position;
  const std::shared_ptr<const Generation> refills = std::move(cache.refills);
  // Where passes repeat, the slots are those of the beginning.
  if (is_next && !(span.fills && position == span.begin)) {
    return absl::OkStatus();
  }
  cache.generations = nullptr;
  auto wanted = batch.generation->reader().StateBefore(
      position - span.begin, ReuseDistance(context_.generations.timeline()));
  HEARTH_RETURN_IF_ERROR(
      batch.generation->Checked(wanted.status(), pass_index_));
  HEARTH_RETURN_IF_ERROR(cache.slots.Arrange(
      wanted->nodes, [&](absl::Span<const RowSlots::Placed> rows) {
        if (is_next && refills != nullptr) {
          return Refill(*refills, rows, batch.tally);
        }
        return row_loaders_.back()->Load(rows, cache.slots, context_.prices,
                                         abandon_.get_token(), batch.tally);
      }));
  cache.generations = &context_.generations;
  cache.position = position;
  return absl::OkStatus();
}

// Fills slots from the refills of `generation`, as far as they have the rows:
// where disk space was short for a repetition, the next one may begin with
// others, which are loaded.
absl::Status ForesightPass::Refill(const Generation& generation,
                                   absl::Span<const RowSlots::Placed> rows,
                                   io::ReadTally& tally) {
  const GenerationReader& reader = generation.reader();
  const GenerationIndex& index = reader.index();
  const size_t last_pass =
      context_.generations.timeline().At(generation.span().end - 1).pass;
  const uint64_t row_bytes = context_.source.features.layout.row_bytes;
  cache::AlignedBuffer buffer;
  std::vector<RowSlots::Placed> others;
  for (int64_t refill = index.FirstRefill(); refill < std::ssize(index.shards);
       ++refill) {
    const uint64_t plan_bytes = reader.PlanMemory(refill);
    HEARTH_RETURN_IF_ERROR(
        buffer.Resize(plan_bytes + reader.PackMemory(refill)));
    const absl::Span<std::byte> bytes(buffer.data(), buffer.size());
    const double start = context_.clock.SteadySeconds();
    const auto plan = reader.ReadPlan(refill, bytes.first(plan_bytes));
    HEARTH_RETURN_IF_ERROR(generation.Checked(plan.status(), last_pass));
    HEARTH_RETURN_IF_ERROR(generation.Checked(
        reader.ReadPack(refill, bytes.subspan(plan_bytes)), last_pass));
    tally.AddRead(bytes.size(), context_.clock.SteadySeconds() - start);
    for (size_t i = 0; i < plan->reads.size(); ++i) {
      for (; !rows.empty() && rows.front().node < plan->reads[i];
           rows.remove_prefix(1)) {
        others.push_back(rows.front());
      }
      if (rows.empty() || rows.front().node != plan->reads[i]) continue;
      HEARTH_RETURN_IF_ERROR(context_.cache.slots.Write(
          rows.front().slot, buffer.data() + plan_bytes + i * row_bytes));
      rows.remove_prefix(1);
    }
  }
  others.insert(others.end(), rows.begin(), rows.end());
  if (others.empty()) return absl::OkStatus();
  return row_loaders_.back()->Load(others, context_.cache.slots,
                                   context_.prices, abandon_.get_token(),
                                   tally);
}

absl::Status ForesightPass::Assemble(int /*thread*/, ForesightBatch& batch) {
  const int64_t position = PositionOf(batch);
  HEARTH_RETURN_IF_ERROR(Arrange(batch, position));
  PlannedCache& cache = context_.cache;
  if (context_.gpu_slots.has_value()) {
    batch.gpu_hits = std::count_if(
        batch.plan.addresses.begin(), batch.plan.addresses.end(),
        [&](uint32_t address) { return address < *context_.gpu_slots; });
  }
  if (cache.slots.gpu() != nullptr) {
    HEARTH_RETURN_IF_ERROR(AssembleOnGpu(batch));
  } else if (pass_.rows_in_place) {
    const cache::StoredRows slots = cache.slots.host_rows();
    batch.LeaveInputs(
        {.slots = slots.data,
         .landed = batch.rows,
         .num_slots = static_cast<uint32_t>(cache.slots.num_slots()),
         .format = {.dim = slots.dim, .dtype = slots.dtype},
         .addresses = batch.plan.addresses.data()});
  } else {
    HEARTH_RETURN_IF_ERROR(Widen(batch));
  }
  HEARTH_RETURN_IF_ERROR(EnterRows(batch));
  cache.position = position + 1;
  const Generation& generation = *batch.generation;
  if (cache.position == generation.span().end && generation.HasRefills()) {
    cache.refills = batch.generation;
  }
  context_.generations.GoOnAt(position + 1);
  batch.generation.reset();
  if (LeavesInputs()) return absl::OkStatus();
  // The rows are assembled: another batch may use the memory.
  batch.plan = {};
  batch.read = {};
  return absl::OkStatus();
}

void ForesightPass::Locate(const ShardPlan& plan, BatchPlaces& places) const {
  const RowSlots& slots = context_.cache.slots;
  const uint32_t first_on_host = slots.first_on_host();
  const auto num_slots = static_cast<uint32_t>(slots.num_slots());
  places.gpu.Clear();
  places.host.Clear();
  places.read.Clear();
  places.entering.Clear();
  for (size_t i = 0; i < plan.addresses.size(); ++i) {
    const uint32_t address = plan.addresses[i];
    const auto position = static_cast<int64_t>(i);
    if (address < first_on_host) {
      places.gpu.Add(address, position);
    } else if (address < num_slots) {
      places.host.Add(address - first_on_host, position);
    } else {
      places.read.Add(address - num_slots, position);
    }
  }
  for (const plan::OptimalCache::Entry& entry : plan.entries) {
    if (entry.slot < first_on_host) places.entering.Add(entry.read, entry.slot);
  }
}

absl::Status ForesightPass::Widen(ForesightBatch& batch) {
  const cache::StoredRows slots = context_.cache.slots.host_rows();
  const cache::StoredRows read = {
      .data = batch.rows, .dtype = slots.dtype, .dim = slots.dim};
  Locate(batch.plan, places_);
  HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                          batch.TakeInputs(slots.dim, context_.inputs));
  cache::ScatterRows(*assemblers_, slots, places_.host.rows,
                     places_.host.positions, inputs);
  cache::ScatterRows(*assemblers_, read, places_.read.rows,
                     places_.read.positions, inputs);
  return absl::OkStatus();
}

absl::Status ForesightPass::AssembleOnGpu(ForesightBatch& batch) {
  RowSlots& slots = context_.cache.slots;
  const int64_t dim = slots.host_rows().dim;
  const auto read_bytes = static_cast<size_t>(batch.rows_read) *
                          context_.source.features.layout.row_bytes;
  Locate(batch.plan, batch.places);
  const GpuSlots::Batch parts = {.places = batch.places,
                                 .host = slots.host_rows().data,
                                 .read = {batch.rows, read_bytes}};
  if (!pass_.rows_on_gpu) {
    HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                            batch.TakeInputs(dim, context_.inputs));
    HEARTH_RETURN_IF_ERROR(slots.gpu()->Assemble(parts, inputs));
    batch.places = {};
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(batch.device_rows,
                          slots.gpu()->AssembleOnDevice(parts));
  batch.LeaveInputs(dim, *batch.device_rows);
  return absl::OkStatus();
}

// Copies the rows that enter slots in host memory, and notes which rows are
// where. The GPU has copied those that enter its slots.
absl::Status ForesightPass::EnterRows(const ForesightBatch& batch) {
  RowSlots& slots = context_.cache.slots;
  const uint64_t row_bytes = context_.source.features.layout.row_bytes;
  for (const uint32_t slot : batch.plan.drops) slots.Drop(slot);
  for (const plan::OptimalCache::Entry& entry : batch.plan.entries) {
    if (entry.slot >= slots.first_on_host()) {
      HEARTH_RETURN_IF_ERROR(
          slots.Write(entry.slot, batch.rows + entry.read * row_bytes));
    }
    slots.Name(entry.slot, batch.plan.reads[entry.read]);
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
