#include "engine/strategy/diskgnn/forecast/plan_figures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/plan_records.h"
#include "engine/strategy/diskgnn/forecast/decode_timer.h"
#include "engine/strategy/diskgnn/forecast/page_reads.h"
#include "engine/strategy/diskgnn/layout/address_table.h"
#include "engine/strategy/diskgnn/layout/batch_code.h"
#include "engine/strategy/diskgnn/layout_choice.h"
#include "engine/strategy/diskgnn/packing/chunk_reader.h"
#include "engine/strategy/sample_stage.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kMostTables = 512;

absl::Status CheckStop(const KnownPlan& known) {
  if (!known.stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("reading a plan's figures: stopped on request");
}

sample::BatchKey KeyOf(const IdentifiedPlan& plan, int64_t chunk) {
  size_t pass = 0;
  while (chunk >=
         plan.identity.passes[pass].first + plan.identity.passes[pass].count) {
    ++pass;
  }
  return KeyOfShard(plan.passes[pass],
                    chunk - plan.identity.passes[pass].first);
}

// The reads of some batches of training from the disk cache.
absl::StatusOr<PageReads> ReadTables(const KnownPlan& known,
                                     const ChunkReader& chunks) {
  PageReads pages;
  if (known.layout.rows.disk == 0) return pages;
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory buffer,
      io::AlignedMemory::Allocate(chunks.features_buffer_bytes()));
  std::vector<int64_t> training;
  for (int64_t i = 0; i < known.layout.num_batches(); ++i) {
    if (known.parts.training_seeds[i] >= 0) training.push_back(i);
  }
  const auto total = std::ssize(training);
  const int64_t count = std::min(total, kMostTables);
  PageReadCounter counter(known.layout.row_bytes);
  AddressTable table;
  for (int64_t i = 0; i < count; ++i) {
    HEARTH_RETURN_IF_ERROR(CheckStop(known));
    HEARTH_RETURN_IF_ERROR(
        chunks.ReadTable(training[i * total / count], buffer.bytes(), table));
    HEARTH_ASSIGN_OR_RETURN(const PageReads reads,
                            counter.Count(table.disk.rows));
    pages.Add(reads);
  }
  return pages;
}

absl::StatusOr<double> TimeDecoding(const KnownPlan& known,
                                    const ChunkReader& chunks) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory buffer,
      io::AlignedMemory::Allocate(chunks.sample_buffer_bytes()));
  DecodeTimer timer(known.clock);
  const int64_t total = known.layout.num_batches();
  const int64_t count = std::min(total, DecodeTimer::kBatches);
  for (int64_t i = 0; i < count; ++i) {
    HEARTH_RETURN_IF_ERROR(CheckStop(known));
    const int64_t chunk = i * total / count;
    const sample::BatchKey key = KeyOf(known.plan, chunk);
    HEARTH_ASSIGN_OR_RETURN(const sample::MiniBatch batch,
                            chunks.ReadSample(chunk, key, buffer.bytes()));
    // As it is in the chunk, but without the disk.
    HEARTH_RETURN_IF_ERROR(timer.Add(EncodeBatch(batch), key));
  }
  return timer.seconds_per_byte();
}

std::string ReasonOf(const KnownPlan& known) {
  const auto about =
      plan::PlanRecords(known.files, known.plan.identity.folder).ReadAbout();
  std::string reason;
  if (about.ok()) reason = plan::ValueOf(about->properties, kLayoutProperty);
  if (!reason.empty()) return reason;
  return absl::StrCat("segments of ", known.layout.segment_size, " batches");
}

}  // namespace

absl::StatusOr<PlanFigures> ReadPlanFigures(const KnownPlan& known) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChunkReader> chunks,
      ChunkReader::Open(known.files, known.plan.identity.folder, known.layout));
  HEARTH_ASSIGN_OR_RETURN(const PageReads pages, ReadTables(known, *chunks));
  PlanFigures figures;
  HEARTH_ASSIGN_OR_RETURN(figures.decode_seconds_per_byte,
                          TimeDecoding(known, *chunks));
  figures.layout = {.epoch = VolumeOfEpoch(known.layout, known.parts, pages),
                    .plan = VolumeOfPlan(known.layout),
                    .segment_size = known.layout.segment_size,
                    .memory_rows = known.layout.rows.cpu,
                    .disk_cache_rows = known.layout.rows.disk,
                    .reason = ReasonOf(known)};
  return figures;
}

}  // namespace hearth::strategy
