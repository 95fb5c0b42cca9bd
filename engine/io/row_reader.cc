#include "engine/io/row_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"

// The staging memory is cut into equal slots, one for each read in flight; no
// planned read is longer than a slot. A read's tag is the number of its slot.
// The loop: fill free slots with the next reads and submit them at once; wait
// until any have come back; check their rows, and hand them out; their slots
// are free. A read with a row that fails the check stays in its slot and is
// submitted once more: damage on the way is gone then, damage on disk is not.

namespace hearth::io {
namespace {

constexpr uint64_t kPageBytes = 4096;

/// How the staging memory is cut.
struct Slots {
  size_t count = 0;
  uint64_t bytes = 0;
};

Slots CutStaging(const BlockDevice& device, const RowLayout& layout,
                 size_t depth, const RowReaderOptions& options) {
  const uint64_t least = RowReader::MinStagingBytes(device, layout);
  const uint64_t most = std::max(options.cost.max_request_bytes, least);
  Slots slots;
  slots.count = std::min<uint64_t>(depth, options.staging_bytes / least);
  slots.bytes = std::min(most, options.staging_bytes / slots.count);
  slots.bytes -= slots.bytes % device.alignment();
  return slots;
}

class QueuedRowReader final : public RowReader {
 public:
  QueuedRowReader(BlockDevice& device, const RowLayout& layout,
                  ReadQueue& queue, Slots slots,
                  const RowReaderOptions& options, AlignedMemory memory,
                  absl::Span<std::byte> staging)
      : device_(device),
        layout_(layout),
        queue_(queue),
        slot_bytes_(slots.bytes),
        cost_(options.cost),
        clock_(*options.clock),
        check_(options.check),
        memory_(std::move(memory)),
        staging_(staging),
        read_of_slot_(slots.count),
        was_repeated_(slots.count),
        registration_(queue.Register(device, staging)) {
    cost_.max_request_bytes = slots.bytes;
    for (size_t i = slots.count; i > 0; --i) free_.push_back(i - 1);
    requests_.reserve(slots.count);
    results_.reserve(slots.count);
  }

  ~QueuedRowReader() override { queue_.Unregister(device_, staging_); }

  absl::Status Read(absl::Span<const int64_t> rows, Arrived arrived,
                    std::stop_token stop, ReadTally& tally) override;

  ReadCost cost() const override { return cost_; }

  Registration registration() const override { return registration_; }

 private:
  absl::Span<std::byte> Slot(size_t number) {
    return staging_.subspan(number * slot_bytes_, slot_bytes_);
  }

  absl::Status SubmitMore(ReadTally& tally);
  absl::Status WaitForSome(ReadTally& tally);
  void AddRequest(size_t slot, ReadTally& tally);
  absl::Status SubmitRequests(ReadTally& tally);
  absl::StatusOr<bool> RepeatIfDamaged(size_t slot, ReadTally& tally);
  void HandOut(size_t slot, Arrived arrived, ReadTally& tally);

  BlockDevice& device_;
  const RowLayout layout_;
  ReadQueue& queue_;
  const uint64_t slot_bytes_;
  ReadCost cost_;
  const Clock& clock_;
  const RowCheck* const check_;
  AlignedMemory memory_;
  const absl::Span<std::byte> staging_;
  // Index in the plan of the read that is in a slot.
  std::vector<size_t> read_of_slot_;
  // Whether the read in a slot is there for the second time.
  std::vector<bool> was_repeated_;
  std::vector<size_t> free_;
  ReadPlan plan_;
  size_t next_read_ = 0;
  std::vector<ReadRequest> requests_;
  std::vector<ReadResult> results_;
  const Registration registration_;
};

absl::Status QueuedRowReader::Read(absl::Span<const int64_t> rows,
                                   Arrived arrived, std::stop_token stop,
                                   ReadTally& tally) {
  absl::Status status =
      Annotate(Coalesce(rows, layout_, device_.alignment(), cost_, plan_),
               device_.path());
  next_read_ = 0;
  while (true) {
    if (status.ok() && stop.stop_requested()) {
      status = absl::CancelledError(
          absl::StrCat(device_.path(), ": reading was stopped"));
    }
    if (status.ok()) status = SubmitMore(tally);
    if (queue_.in_flight() == 0) return status;
    HEARTH_RETURN_IF_ERROR(WaitForSome(tally));
    requests_.clear();
    for (const ReadResult& result : results_) {
      if (status.ok()) status = result.status;
      if (status.ok()) {
        const absl::StatusOr<bool> repeats = RepeatIfDamaged(result.tag, tally);
        if (repeats.ok() && *repeats) continue;
        status = repeats.status();
      }
      if (status.ok()) HandOut(result.tag, arrived, tally);
      free_.push_back(result.tag);
    }
    if (status.ok()) {
      status = SubmitRequests(tally);
    } else {
      for (const ReadRequest& request : requests_) free_.push_back(request.tag);
    }
  }
}

absl::Status QueuedRowReader::SubmitMore(ReadTally& tally) {
  requests_.clear();
  for (; !free_.empty() && next_read_ < plan_.reads.size(); ++next_read_) {
    const size_t slot = free_.back();
    free_.pop_back();
    read_of_slot_[slot] = next_read_;
    was_repeated_[slot] = false;
    AddRequest(slot, tally);
  }
  return SubmitRequests(tally);
}

void QueuedRowReader::AddRequest(size_t slot, ReadTally& tally) {
  const PlannedRead& read = plan_.reads[read_of_slot_[slot]];
  requests_.push_back({.device = &device_,
                       .offset = read.offset,
                       .out = Slot(slot).first(read.length),
                       .tag = slot});
  tally.bytes_read += static_cast<int64_t>(read.length);
}

absl::Status QueuedRowReader::SubmitRequests(ReadTally& tally) {
  if (requests_.empty()) return absl::OkStatus();
  tally.requests += static_cast<int64_t>(requests_.size());
  return queue_.Submit(requests_);
}

// Whether a row of the read does not pass the check, so that the read is among
// the requests again; DATA_LOSS at the second time.
absl::StatusOr<bool> QueuedRowReader::RepeatIfDamaged(size_t slot,
                                                      ReadTally& tally) {
  if (check_ == nullptr) return false;
  const PlannedRead& read = plan_.reads[read_of_slot_[slot]];
  const std::byte* bytes = Slot(slot).data();
  int64_t last = -1;
  for (size_t i = 0; i < read.num_rows; ++i) {
    const int64_t row = plan_.rows[read.first_row + i].row;
    const uint64_t offset = layout_.RowOffset(row);
    if (row == last || check_->Matches(row, bytes + (offset - read.offset))) {
      last = row;
      continue;
    }
    if (was_repeated_[slot]) {
      return absl::DataLossError(
          absl::StrCat(device_.path(), ": row ", row, " at byte ", offset,
                       " is damaged (its checksum does not match)"));
    }
    was_repeated_[slot] = true;
    AddRequest(slot, tally);
    return true;
  }
  return false;
}

absl::Status QueuedRowReader::WaitForSome(ReadTally& tally) {
  const double began = clock_.SteadySeconds();
  const absl::Status status = queue_.Wait(1, results_);
  tally.wait_seconds += clock_.SteadySeconds() - began;
  return status;
}

void QueuedRowReader::HandOut(size_t slot, Arrived arrived, ReadTally& tally) {
  const PlannedRead& read = plan_.reads[read_of_slot_[slot]];
  const std::byte* bytes = Slot(slot).data();
  int64_t last = -1;
  int64_t distinct = 0;
  for (size_t i = 0; i < read.num_rows; ++i) {
    const RowAt& at = plan_.rows[read.first_row + i];
    arrived(at.position, bytes + (layout_.RowOffset(at.row) - read.offset));
    if (at.row != last) ++distinct;
    last = at.row;
  }
  tally.rows += static_cast<int64_t>(read.num_rows);
  tally.payload_bytes += distinct * layout_.row_bytes;
}

absl::Status CheckLayout(const BlockDevice& device, const RowLayout& layout) {
  if (layout.row_bytes == 0 || layout.num_rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(device.path(), ": ", layout.num_rows, " rows of ",
                     layout.row_bytes, " bytes make no sense"));
  }
  const uint64_t size = device.size_bytes();
  const uint64_t rows = static_cast<uint64_t>(layout.num_rows);
  if (rows > 0 && (layout.first_offset > size ||
                   rows > (size - layout.first_offset) / layout.row_bytes)) {
    return absl::DataLossError(
        absl::StrCat(device.path(), ": ends at byte ", size, "; ", rows,
                     " rows of ", layout.row_bytes, " bytes from byte ",
                     layout.first_offset, " do not fit"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t RowReader::MinStagingBytes(const BlockDevice& device,
                                    const RowLayout& layout) {
  return LongestRowRead(layout, device.alignment());
}

absl::StatusOr<std::unique_ptr<RowReader>> RowReader::Create(
    BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
    const RowReaderOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckLayout(device, layout));
  const uint64_t least = MinStagingBytes(device, layout);
  if (options.staging_bytes < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        device.path(), ": rows of ", layout.row_bytes, " bytes need ", least,
        " bytes of staging memory; ", options.staging_bytes, " were given"));
  }
  const Slots slots = CutStaging(device, layout, queue.depth(), options);
  const uint64_t needed = slots.count * slots.bytes;
  // Memory comes in pages; a device may want larger units.
  const uint64_t unit = std::max<uint64_t>(device.alignment(), kPageBytes);
  HEARTH_ASSIGN_OR_RETURN(
      AlignedMemory memory,
      AlignedMemory::Allocate(needed + (unit - kPageBytes)));
  const auto address = reinterpret_cast<uintptr_t>(memory.bytes().data());
  const auto staging = memory.bytes().subspan(-address % unit, needed);
  return std::make_unique<QueuedRowReader>(device, layout, queue, slots,
                                           options, std::move(memory), staging);
}

}  // namespace hearth::io
