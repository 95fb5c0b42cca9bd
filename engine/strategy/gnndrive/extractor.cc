#include "engine/strategy/gnndrive/extractor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/cache/feature_buffer.h"
#include "engine/io/row_reader.h"

namespace hearth::strategy {

namespace {

// No more slots than rows, or than a table can have.
int64_t MostSlots(const SlotBudget& budget) {
  return std::min(budget.num_rows, cache::SlotTable::kMaxSlots);
}

// Slots that fit into `bytes`, no more than MostSlots.
int64_t SlotsIn(uint64_t bytes, const SlotBudget& budget) {
  return static_cast<int64_t>(
      std::min<uint64_t>(bytes / static_cast<uint64_t>(budget.row_bytes),
                         static_cast<uint64_t>(MostSlots(budget))));
}

absl::Status TooSmall(const SlotBudget& budget, int64_t slots,
                      int64_t largest) {
  const uint64_t needed =
      static_cast<uint64_t>(largest) * static_cast<uint64_t>(budget.row_bytes);
  return absl::ResourceExhaustedError(absl::StrCat(
      "staging_bytes of ", FormatByteSize(budget.staging_bytes), " holds ",
      slots, " rows of ", budget.row_bytes, " bytes, but a batch has up to ",
      largest, " input nodes: at least ", needed, " bytes (",
      FormatByteSize(needed), ") are needed, or smaller batches"));
}

}  // namespace

absl::StatusOr<SlotPlan> PlanSlots(const SlotBudget& budget,
                                   const BatchBound& batches) {
  SlotPlan plan;
  plan.extractors = budget.extractors;
  const int64_t largest = batches.largest.num_inputs();
  if (budget.staging_bytes == 0) {
    plan.reserved_slots =
        std::min(MostSlots(budget),
                 batches.WithMargin().num_inputs() * budget.extractors);
  } else {
    plan.reserved_slots = SlotsIn(budget.staging_bytes, budget);
    if (plan.reserved_slots < largest) {
      return TooSmall(budget, plan.reserved_slots, largest);
    }
    if (plan.reserved_slots < budget.num_rows) {
      const int64_t served =
          plan.reserved_slots / std::max<int64_t>(largest, 1);
      plan.extractors =
          static_cast<int>(std::clamp<int64_t>(served, 1, budget.extractors));
    }
  }
  plan.cache_slots = std::min(SlotsIn(budget.cpu_cache_bytes, budget),
                              MostSlots(budget) - plan.reserved_slots);
  plan.needed_slots = plan.cache_slots + std::min(plan.reserved_slots,
                                                  largest * budget.extractors);
  return plan;
}

uint64_t Extractor::StagingBytes(uint64_t row_bytes) {
  return std::max(io::RowReaderOptions().staging_bytes, row_bytes + (8 << 10));
}

absl::StatusOr<std::unique_ptr<Extractor>> Extractor::Create(
    const store::StoredFeatures& features, const io::RowCheck* check,
    io::ReadQueues& queues, const Clock& clock, size_t io_depth) {
  HEARTH_ASSIGN_OR_RETURN(io::ReadQueues::Handle queue, queues.Take(io_depth));
  io::RowReaderOptions options;
  options.clock = &clock;
  options.check = check;
  options.staging_bytes = std::max(
      options.staging_bytes,
      io::RowStream::MinStagingBytes(*features.device, features.layout));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<io::RowReader> reader,
      io::RowReader::Create(*features.device, features.layout, *queue,
                            options));
  return std::unique_ptr<Extractor>(
      new Extractor(std::move(queue), std::move(reader)));
}

Extractor::Extractor(io::ReadQueues::Handle queue,
                     std::unique_ptr<io::RowReader> reader)
    : queue_(std::move(queue)), reader_(std::move(reader)) {}

absl::Status Extractor::Extract(const Shared& shared, GnndriveBatch& batch) {
  const Nodes nodes = batch.sample().input_nodes;
  batch.pins = cache::FeatureBuffer::Pins(shared.buffer);
  {
    HEARTH_ASSIGN_OR_RETURN(const cache::ClaimTurns::Turn turn,
                            shared.turns.Take(batch.number(), shared.stop));
    HEARTH_RETURN_IF_ERROR(ClaimAll(shared, nodes, batch.pins, batch.tally));
  }
  batch.rows_missed = batch.pins.num_missed();
  return LoadMissing(shared, nodes, batch.pins, batch.tally);
}

absl::Status Extractor::ExtractInParts(const Shared& shared,
                                       GnndriveBatch& batch, UsePart use) {
  HEARTH_ASSIGN_OR_RETURN(const cache::ClaimTurns::Turn turn,
                          shared.turns.Take(batch.number(), shared.stop));
  const Nodes nodes = batch.sample().input_nodes;
  const int64_t part = shared.buffer.num_slots();
  for (int64_t first = 0; first < batch.num_rows(); first += part) {
    const Nodes part_nodes = nodes.subspan(first, part);
    cache::FeatureBuffer::Pins pins(shared.buffer);
    HEARTH_RETURN_IF_ERROR(ClaimAll(shared, part_nodes, pins, batch.tally));
    batch.rows_missed += pins.num_missed();
    HEARTH_RETURN_IF_ERROR(LoadMissing(shared, part_nodes, pins, batch.tally));
    HEARTH_RETURN_IF_ERROR(pins.AwaitRows(shared.stop));
    use(first, pins);
  }
  return absl::OkStatus();
}

// Loads the rows that it has claimed before it waits for a slot: other batches
// may be waiting for these rows.
absl::Status Extractor::ClaimAll(const Shared& shared, Nodes nodes,
                                 cache::FeatureBuffer::Pins& pins,
                                 io::ReadTally& tally) {
  while (!pins.Claim(nodes)) {
    HEARTH_RETURN_IF_ERROR(LoadMissing(shared, nodes, pins, tally));
    HEARTH_RETURN_IF_ERROR(pins.AwaitSlot(shared.stop));
  }
  return absl::OkStatus();
}

absl::Status Extractor::LoadMissing(const Shared& shared, Nodes nodes,
                                    cache::FeatureBuffer::Pins& pins,
                                    io::ReadTally& tally) {
  if (pins.missing().empty()) return absl::OkStatus();
  rows_.clear();
  for (const int64_t position : pins.missing()) {
    rows_.push_back(nodes[position]);
  }
  absl::Status status = reader_->Read(
      rows_,
      [&pins](size_t index, const std::byte* row) { pins.Load(index, row); },
      shared.stop, tally);
  if (status.ok()) {
    pins.FinishLoading();
  } else {
    pins.FailLoading(status);
  }
  return status;
}

}  // namespace hearth::strategy
