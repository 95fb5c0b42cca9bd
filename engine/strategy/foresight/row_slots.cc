#include "engine/strategy/foresight/row_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"

namespace hearth::strategy {

RowSlots::RowSlots(cache::SlotArena arena, const store::RowFormat& format,
                   std::unique_ptr<GpuSlots> gpu, cuda::Registration pinned,
                   int64_t num_slots)
    : arena_(std::move(arena)),
      pinned_(std::move(pinned)),
      format_(format),
      gpu_(std::move(gpu)),
      nodes_(static_cast<size_t>(num_slots), kFree) {}

std::vector<RowSlots::Placed> RowSlots::ByNode(
    absl::Span<const uint32_t> nodes) {
  std::vector<Placed> placed;
  placed.reserve(nodes.size());
  for (size_t slot = 0; slot < nodes.size(); ++slot) {
    if (nodes[slot] == kFree) continue;
    placed.push_back({nodes[slot], static_cast<uint32_t>(slot)});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.node < b.node; });
  return placed;
}

absl::StatusOr<RowSlots> RowSlots::Make(int64_t num_slots,
                                        const store::RowFormat& format,
                                        std::unique_ptr<GpuSlots> gpu) {
  const int64_t on_gpu = gpu == nullptr ? 0 : gpu->num_slots();
  HEARTH_ASSIGN_OR_RETURN(
      cache::SlotArena arena,
      cache::SlotArena::Make(num_slots - on_gpu, format.row_bytes()));
  cuda::Registration pinned;
  if (gpu != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        pinned, cuda::Registration::Register(
                    gpu->device(),
                    {arena.rows(), static_cast<size_t>(arena.num_slots() *
                                                       arena.row_bytes())}));
  }
  return RowSlots(std::move(arena), format, std::move(gpu), std::move(pinned),
                  num_slots);
}

uint64_t RowSlots::MemoryBytes(int64_t num_slots, int64_t row_bytes) {
  return static_cast<uint64_t>(num_slots) *
         (static_cast<uint64_t>(row_bytes) + sizeof(uint32_t));
}

uint64_t RowSlots::ArrangingBytes(int64_t num_slots) {
  return static_cast<uint64_t>(num_slots) *
         (sizeof(uint32_t) + 2 * sizeof(Placed) + 1);
}

absl::Status RowSlots::Write(uint32_t slot, const std::byte* row) {
  if (slot < first_on_host()) return gpu_->Write(slot, row);
  std::memcpy(host_row(slot), row, static_cast<size_t>(format_.row_bytes()));
  return absl::OkStatus();
}

absl::Status RowSlots::Read(uint32_t slot, std::byte* row) {
  if (slot < first_on_host()) return gpu_->Read(slot, row);
  std::memcpy(row, host_row(slot), static_cast<size_t>(format_.row_bytes()));
  return absl::OkStatus();
}

absl::Status RowSlots::Flush() {
  return gpu_ == nullptr ? absl::OkStatus() : gpu_->Flush();
}

absl::Status RowSlots::Move(uint32_t from, uint32_t to) {
  Name(to, nodes_[from]);
  if (from >= first_on_host()) return Write(to, host_row(from));
  if (to >= first_on_host()) return gpu_->Read(from, host_row(to));
  return gpu_->Move(from, to);
}

// Each slot that changes takes its row from the slot that has it, so that slots
// form chains and rings. A chain begins with a slot whose row no slot wants;
// filling it from the next slot makes that one the beginning, up to a slot
// whose row is to be loaded. What is left are rings, each rotated by one row of
// memory. So each slot is read before it is written, and written once, as
// GpuSlots requires.
absl::Status RowSlots::Arrange(absl::Span<const uint32_t> wanted, Load load) {
  if (std::equal(wanted.begin(), wanted.end(), nodes_.begin(), nodes_.end())) {
    return absl::OkStatus();
  }
  // The slot from which each slot takes its row; itself if it has it, kFree if
  // the row is to be loaded, or none is wanted.
  std::vector<uint32_t> source(nodes_.size(), kFree);
  std::vector<bool> is_wanted(nodes_.size(), false);
  std::vector<Placed> missing = ByNode(wanted);
  {
    const std::vector<Placed> held = ByNode(nodes_);
    auto from = held.begin();
    std::erase_if(missing, [&](const Placed& place) {
      while (from != held.end() && from->node < place.node) ++from;
      if (from == held.end() || from->node != place.node) return false;
      source[place.slot] = from->slot;
      is_wanted[from->slot] = true;
      return true;
    });
  }
  for (size_t begin = 0; begin < nodes_.size(); ++begin) {
    if (is_wanted[begin]) continue;
    auto slot = static_cast<uint32_t>(begin);
    while (source[slot] != kFree) {
      const uint32_t from = source[slot];
      HEARTH_RETURN_IF_ERROR(Move(from, slot));
      source[slot] = slot;
      nodes_[from] = kFree;
      slot = from;
    }
    nodes_[slot] = kFree;
  }
  std::vector<std::byte> row(static_cast<size_t>(format_.row_bytes()));
  for (size_t begin = 0; begin < nodes_.size(); ++begin) {
    if (source[begin] == kFree || source[begin] == begin) continue;
    auto slot = static_cast<uint32_t>(begin);
    const uint32_t node = nodes_[slot];
    HEARTH_RETURN_IF_ERROR(Read(slot, row.data()));
    HEARTH_RETURN_IF_ERROR(Flush());
    while (source[slot] != begin) {
      const uint32_t from = source[slot];
      HEARTH_RETURN_IF_ERROR(Move(from, slot));
      source[slot] = slot;
      slot = from;
    }
    HEARTH_RETURN_IF_ERROR(Write(slot, row.data()));
    Name(slot, node);
    source[slot] = slot;
  }
  HEARTH_RETURN_IF_ERROR(Flush());
  if (missing.empty()) return absl::OkStatus();
  absl::Status loaded = load(missing);
  loaded.Update(Flush());
  HEARTH_RETURN_IF_ERROR(loaded);
  for (const Placed& placed : missing) nodes_[placed.slot] = placed.node;
  return absl::OkStatus();
}

}  // namespace hearth::strategy
