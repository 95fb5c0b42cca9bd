#include "engine/strategy/gnndrive/extractor.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/io/row_stream.h"

namespace hearth::strategy {

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

// Loads the rows that were claimed before it waits for slots: others may wait
// for them.
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
