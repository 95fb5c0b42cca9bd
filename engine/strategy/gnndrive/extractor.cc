#include "engine/strategy/gnndrive/extractor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

absl::Status TooLarge(const GnndriveBatch& batch, int64_t num_slots) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "batch ", batch.number(), " has ", batch.num_rows(),
      " input nodes, but the feature buffer has ", num_slots,
      " slots: more --staging or --cpu-cache is needed, or smaller batches"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Extractor>> Extractor::Create(
    const store::StoredFeatures& features, io::ReadQueues& queues,
    size_t io_depth) {
  HEARTH_ASSIGN_OR_RETURN(io::ReadQueues::Handle queue, queues.Take(io_depth));
  io::RowReaderOptions options;
  options.staging_bytes = std::max(
      options.staging_bytes,
      io::RowReader::MinStagingBytes(*features.device, features.layout));
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

absl::Status Extractor::Extract(cache::FeatureBuffer& buffer,
                                cache::ClaimTurns& turns, std::stop_token stop,
                                GnndriveBatch& batch) {
  if (batch.num_rows() > buffer.num_slots()) {
    return TooLarge(batch, buffer.num_slots());
  }
  cache::FeatureBuffer::Pins& pins = batch.pins();
  pins = cache::FeatureBuffer::Pins(buffer);
  const std::vector<store::NodeId>& nodes = batch.sample().input_nodes;
  {
    HEARTH_ASSIGN_OR_RETURN(const cache::ClaimTurns::Turn turn,
                            turns.Take(batch.number(), stop));
    while (!pins.Claim(nodes)) {
      HEARTH_RETURN_IF_ERROR(LoadMissing(stop, batch));
      HEARTH_RETURN_IF_ERROR(pins.AwaitSlot(stop));
    }
  }
  HEARTH_RETURN_IF_ERROR(LoadMissing(stop, batch));
  return pins.AwaitRows(std::move(stop));
}

absl::Status Extractor::LoadMissing(std::stop_token stop,
                                    GnndriveBatch& batch) {
  cache::FeatureBuffer::Pins& pins = batch.pins();
  if (pins.missing().empty()) return absl::OkStatus();
  const std::vector<store::NodeId>& nodes = batch.sample().input_nodes;
  rows_.clear();
  for (const int64_t position : pins.missing()) {
    rows_.push_back(nodes[position]);
  }
  absl::Status status = reader_->Read(
      rows_,
      [&pins](size_t index, const std::byte* row) { pins.Load(index, row); },
      std::move(stop), batch.tally());
  if (status.ok()) {
    pins.FinishLoading();
  } else {
    pins.FailLoading(status);
  }
  return status;
}

}  // namespace hearth::strategy
