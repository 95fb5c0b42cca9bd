#include "engine/io/row_reader.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"

// The staging memory is cut into equal slots, one for each read in flight; no
// planned read is longer than a slot. A read's tag is the number of its slot.
// Advance: fill free slots with the next reads and submit them at once; wait
// until any have come back; check their rows, and hand them out; their slots
// are free. A read with a row that fails the check stays in its slot and is
// submitted once more: damage on the way is gone then, damage on disk is not.

namespace hearth::io {

namespace {

constexpr uint64_t kPageBytes = 4096;

/// Slots that the staging memory is cut into.
struct Slots {
  size_t count = 0;
  uint64_t bytes = 0;
};

Slots CutStaging(const BlockDevice& device, const RowLayout& layout,
                 size_t depth, const RowReaderOptions& options) {
  const uint64_t least = RowStream::MinStagingBytes(device, layout);
  const uint64_t most = std::max(options.cost.max_request_bytes, least);
  Slots slots;
  slots.count = std::min<uint64_t>(depth, options.staging_bytes / least);
  slots.bytes = std::min(most, options.staging_bytes / slots.count);
  slots.bytes -= slots.bytes % device.alignment();
  return slots;
}

class QueuedRowStream final : public RowStream {
 public:
  QueuedRowStream(BlockDevice& device, const RowLayout& layout,
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
        in_form_(layout.tables == nullptr ? 0 : layout.row_bytes),
        slots_(slots.count),
        registration_(Register()) {
    cost_.max_request_bytes = slots.bytes;
    for (size_t i = slots.count; i > 0; --i) free_.push_back(i - 1);
    requests_.reserve(slots.count);
    results_.reserve(slots.count);
  }

  ~QueuedRowStream() override {
    // Registered memory must not go before the last read into it has ended.
    (void)Abandon();
    for (const Registered& known : Registerable()) {
      queue_.Unregister(*known.device, known.memory);
    }
  }

  absl::Status Add(absl::Span<const int64_t> rows, Arrived arrived,
                   ReadTally& tally) override;
  size_t num_lists() const override { return lists_.size(); }
  bool TakeOff() override;
  int64_t outstanding() const override { return outstanding_; }
  absl::Status Advance() override;
  absl::Status Abandon() override;
  ReadCost cost() const override { return cost_; }
  Registration registration() const override { return registration_; }

 private:
  // A list of rows that is being read.
  struct List {
    ReadPlan plan;
    Arrived arrived;
    ReadTally* tally = nullptr;
    // Reads that were started, and reads whose rows have arrived.
    size_t started = 0;
    size_t arrived_reads = 0;

    bool is_done() const { return arrived_reads == plan.reads.size(); }
  };

  // A read in flight.
  struct Slot {
    List* list = nullptr;
    // Index in the plan of its list.
    size_t read = 0;
    // Whether this is the second read, after a failed check.
    bool was_repeated = false;

    const PlannedRead& planned() const { return list->plan.reads[read]; }
  };

  absl::Span<std::byte> Memory(size_t slot) {
    return staging_.subspan(slot * slot_bytes_, slot_bytes_);
  }

  absl::Status SubmitMore();
  absl::Status WaitForSome();
  void AddRequest(size_t slot);
  absl::Status SubmitRequests();
  absl::StatusOr<bool> RepeatIfDamaged(size_t slot);
  // A file to register with the queue, and the memory to register with it.
  struct Registered {
    BlockDevice* device = nullptr;
    absl::Span<std::byte> memory;
  };
  std::vector<Registered> Registerable();
  Registration Register();
  int64_t RowInFile(int64_t row) const;
  void HandOut(size_t slot);
  const std::byte* InForm(int64_t row, const std::byte* stored);
  void Recycle(std::unique_ptr<List> list);

  BlockDevice& device_;
  const RowLayout layout_;
  ReadQueue& queue_;
  const uint64_t slot_bytes_;
  ReadCost cost_;
  const Clock& clock_;
  const RowCheck* const check_;
  AlignedMemory memory_;
  const absl::Span<std::byte> staging_;
  // A row that was converted (RowTable::convert).
  std::vector<std::byte> in_form_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  // In order; all reads of the lists before `next_list_` have been started.
  std::deque<std::unique_ptr<List>> lists_;
  size_t next_list_ = 0;
  // A list that was taken off, kept so that the next list reuses its memory.
  std::unique_ptr<List> spare_;
  int64_t outstanding_ = 0;
  std::vector<ReadRequest> requests_;
  std::vector<ReadResult> results_;
  const Registration registration_;
};

// Each file that is read; the staging memory goes with the first.
std::vector<QueuedRowStream::Registered> QueuedRowStream::Registerable() {
  std::vector<Registered> all;
  for (BlockDevice* const file : device_.Files()) {
    all.push_back({file, all.empty() ? staging_ : absl::Span<std::byte>()});
  }
  return all;
}

Registration QueuedRowStream::Register() {
  Registration all = {.file = true, .memory = false};
  for (const Registered& known : Registerable()) {
    const Registration one = queue_.Register(*known.device, known.memory);
    all.file = all.file && one.file;
    all.memory = all.memory || one.memory;
  }
  return all;
}

absl::Status QueuedRowStream::Add(absl::Span<const int64_t> rows,
                                  Arrived arrived, ReadTally& tally) {
  std::unique_ptr<List> list = std::move(spare_);
  if (list == nullptr) list = std::make_unique<List>();
  const absl::Status status =
      Coalesce(rows, layout_, device_.alignment(), cost_, list->plan);
  if (!status.ok()) {
    Recycle(std::move(list));
    return Annotate(status, device_.path());
  }
  list->arrived = std::move(arrived);
  list->tally = &tally;
  list->started = 0;
  list->arrived_reads = 0;
  outstanding_ += static_cast<int64_t>(list->plan.reads.size());
  lists_.push_back(std::move(list));
  return absl::OkStatus();
}

bool QueuedRowStream::TakeOff() {
  if (lists_.empty() || !lists_.front()->is_done()) return false;
  Recycle(std::move(lists_.front()));
  lists_.pop_front();
  if (next_list_ > 0) --next_list_;
  return true;
}

void QueuedRowStream::Recycle(std::unique_ptr<List> list) {
  list->arrived = nullptr;
  // Only lists that come one by one are reused: otherwise all would grow to the
  // size of the largest.
  if (lists_.size() <= 1) spare_ = std::move(list);
}

absl::Status QueuedRowStream::Advance() {
  HEARTH_RETURN_IF_ERROR(SubmitMore());
  HEARTH_RETURN_IF_ERROR(WaitForSome());
  requests_.clear();
  absl::Status status;
  for (const ReadResult& result : results_) {
    if (status.ok()) status = result.status;
    if (status.ok()) {
      const absl::StatusOr<bool> repeats = RepeatIfDamaged(result.tag);
      if (repeats.ok() && *repeats) continue;
      status = repeats.status();
    }
    if (status.ok()) HandOut(result.tag);
    free_.push_back(result.tag);
  }
  if (status.ok()) return SubmitRequests();
  for (const ReadRequest& request : requests_) free_.push_back(request.tag);
  return status;
}

absl::Status QueuedRowStream::Abandon() {
  while (queue_.in_flight() > 0) {
    HEARTH_RETURN_IF_ERROR(queue_.Wait(1, results_));
    for (const ReadResult& result : results_) free_.push_back(result.tag);
  }
  while (!lists_.empty()) {
    Recycle(std::move(lists_.front()));
    lists_.pop_front();
  }
  next_list_ = 0;
  outstanding_ = 0;
  return absl::OkStatus();
}

absl::Status QueuedRowStream::SubmitMore() {
  requests_.clear();
  while (!free_.empty() && next_list_ < lists_.size()) {
    List& list = *lists_[next_list_];
    if (list.started == list.plan.reads.size()) {
      ++next_list_;
      continue;
    }
    const size_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = {.list = &list, .read = list.started++};
    AddRequest(slot);
  }
  return SubmitRequests();
}

void QueuedRowStream::AddRequest(size_t slot) {
  const PlannedRead& read = slots_[slot].planned();
  const DevicePart part = device_.PartAt(read.offset);
  requests_.push_back({.device = part.device,
                       .offset = part.offset,
                       .out = Memory(slot).first(read.length),
                       .tag = slot});
  ReadTally& tally = *slots_[slot].list->tally;
  tally.bytes_read += static_cast<int64_t>(read.length);
  ++tally.requests;
}

absl::Status QueuedRowStream::SubmitRequests() {
  if (requests_.empty()) return absl::OkStatus();
  return queue_.Submit(requests_);
}

// Whether a row of the read fails its check; the read is then requested once
// more. DATA_LOSS if it was the second read.
absl::StatusOr<bool> QueuedRowStream::RepeatIfDamaged(size_t slot) {
  if (check_ == nullptr) return false;
  const ReadPlan& plan = slots_[slot].list->plan;
  const PlannedRead& read = slots_[slot].planned();
  const std::byte* bytes = Memory(slot).data();
  int64_t last = -1;
  for (size_t i = 0; i < read.num_rows; ++i) {
    const int64_t row = plan.rows[read.first_row + i].row;
    const uint64_t offset = layout_.RowOffset(row);
    if (row == last || check_->Matches(row, bytes + (offset - read.offset))) {
      last = row;
      continue;
    }
    if (slots_[slot].was_repeated) {
      const DevicePart part = device_.PartAt(offset);
      return absl::DataLossError(absl::StrCat(
          part.device->path(), ": row ", RowInFile(row), " at byte ",
          part.offset, " is damaged (its checksum does not match)"));
    }
    slots_[slot].was_repeated = true;
    AddRequest(slot);
    return true;
  }
  return false;
}

// The number of a row in its own file.
int64_t QueuedRowStream::RowInFile(int64_t row) const {
  return layout_.tables == nullptr ? row : row - layout_.TableOf(row).first_row;
}

absl::Status QueuedRowStream::WaitForSome() {
  const double began = clock_.SteadySeconds();
  const absl::Status status = queue_.Wait(1, results_);
  lists_.front()->tally->wait_seconds += clock_.SteadySeconds() - began;
  return status;
}

void QueuedRowStream::HandOut(size_t slot) {
  List& list = *slots_[slot].list;
  const PlannedRead& read = slots_[slot].planned();
  const std::byte* bytes = Memory(slot).data();
  const std::byte* row = nullptr;
  int64_t last = -1;
  int64_t payload_bytes = 0;
  for (size_t i = 0; i < read.num_rows; ++i) {
    const RowAt& at = list.plan.rows[read.first_row + i];
    if (at.row != last) {
      row = InForm(at.row, bytes + (layout_.RowOffset(at.row) - read.offset));
      payload_bytes += layout_.StoredBytes(at.row);
    }
    last = at.row;
    list.arrived(at.position, row);
  }
  list.tally->rows += static_cast<int64_t>(read.num_rows);
  list.tally->payload_bytes += payload_bytes;
  ++list.arrived_reads;
  --outstanding_;
}

// The row as readers hand it out, for `stored`; valid until the next call.
const std::byte* QueuedRowStream::InForm(int64_t row, const std::byte* stored) {
  if (layout_.tables == nullptr) return stored;
  const RowTable& table = layout_.TableOf(row);
  if (!table.convert) return stored;
  table.convert(stored, in_form_.data());
  return in_form_.data();
}

// The number, within its table, of the first row of the last stripe.
int64_t FirstOfLastStripe(const RowTable& table) {
  if (table.num_rows == 0) return 0;
  return (table.num_rows - 1) >> table.log2_stripe_rows
                                     << table.log2_stripe_rows;
}

absl::Status CheckTable(BlockDevice& device, const RowTable& table) {
  if (table.row_bytes == 0 || table.num_rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(device.path(), ": ", table.num_rows, " rows of ",
                     table.row_bytes, " bytes make no sense"));
  }
  // Checks the last stripe only: whoever opened the files has checked their
  // sizes.
  const int64_t first = FirstOfLastStripe(table);
  const DevicePart part =
      device.PartAt(table.RowOffset(table.first_row + first));
  const uint64_t size = part.device->size_bytes();
  const auto rows = static_cast<uint64_t>(table.num_rows - first);
  if (rows > 0 &&
      (part.offset > size || rows > (size - part.offset) / table.row_bytes)) {
    return absl::DataLossError(absl::StrCat(
        part.device->path(), ": ends at byte ", size, "; ", rows, " rows of ",
        table.row_bytes, " bytes from byte ", part.offset, " do not fit"));
  }
  return absl::OkStatus();
}

absl::Status CheckLayout(BlockDevice& device, const RowLayout& layout) {
  if (layout.tables == nullptr) {
    return CheckTable(device, {.num_rows = layout.num_rows,
                               .first_offset = layout.first_offset,
                               .row_bytes = layout.row_bytes});
  }
  for (const RowTable& table : *layout.tables) {
    HEARTH_RETURN_IF_ERROR(CheckTable(device, table));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t RowStream::MinStagingBytes(const BlockDevice& device,
                                    const RowLayout& layout) {
  return LongestRowRead(layout, device.alignment());
}

absl::StatusOr<std::unique_ptr<RowStream>> RowStream::Create(
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
  // AlignedMemory is aligned to pages; a device may need larger units.
  const uint64_t unit = std::max<uint64_t>(device.alignment(), kPageBytes);
  HEARTH_ASSIGN_OR_RETURN(
      AlignedMemory memory,
      AlignedMemory::Allocate(needed + (unit - kPageBytes)));
  const auto address = reinterpret_cast<uintptr_t>(memory.bytes().data());
  const auto staging = memory.bytes().subspan(-address % unit, needed);
  return std::make_unique<QueuedRowStream>(device, layout, queue, slots,
                                           options, std::move(memory), staging);
}

RowReader::RowReader(std::string path, std::unique_ptr<RowStream> stream)
    : path_(std::move(path)), stream_(std::move(stream)) {}

absl::StatusOr<std::unique_ptr<RowReader>> RowReader::Create(
    BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
    const RowReaderOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<RowStream> stream,
                          RowStream::Create(device, layout, queue, options));
  return std::unique_ptr<RowReader>(
      new RowReader(device.path(), std::move(stream)));
}

absl::Status RowReader::Read(absl::Span<const int64_t> rows, Arrived arrived,
                             std::stop_token stop, ReadTally& tally) {
  absl::Status status = stream_->Add(rows, arrived, tally);
  while (status.ok() && !stream_->TakeOff()) {
    status =
        stop.stop_requested()
            ? absl::CancelledError(absl::StrCat(path_, ": reading was stopped"))
            : stream_->Advance();
  }
  if (status.ok()) return status;
  const absl::Status abandoned = stream_->Abandon();
  return abandoned.ok() ? status : abandoned;
}

}  // namespace hearth::io
