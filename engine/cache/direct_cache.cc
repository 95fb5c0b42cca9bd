#include "engine/cache/direct_cache.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/cache/assemble.h"

namespace hearth::cache {
namespace {

using store::NodeId;

constexpr uint64_t kTableBytes = sizeof(int64_t);

}  // namespace

int64_t DirectCache::Capacity(uint64_t budget_bytes, int64_t num_nodes,
                              int64_t row_bytes) {
  const uint64_t table = static_cast<uint64_t>(num_nodes) * kTableBytes;
  if (budget_bytes <= table) return 0;
  const uint64_t rows =
      (budget_bytes - table) / static_cast<uint64_t>(row_bytes);
  return static_cast<int64_t>(std::min(rows, static_cast<uint64_t>(num_nodes)));
}

DirectCache::DirectCache(const store::RowFormat& format, SlotArena arena,
                         io::AlignedMemory table_memory)
    : format_(format),
      arena_(std::move(arena)),
      table_memory_(std::move(table_memory)),
      table_(reinterpret_cast<int64_t*>(table_memory_.bytes().data()),
             table_memory_.bytes().size() / kTableBytes) {
  std::fill(table_.begin(), table_.end(), kAbsent);
}

absl::StatusOr<DirectCache> DirectCache::Make(int64_t num_nodes,
                                              int64_t capacity,
                                              const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(SlotArena arena,
                          SlotArena::Make(capacity, format.row_bytes()));
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory table,
      io::AlignedMemory::Allocate(
          capacity == 0 ? 0 : static_cast<uint64_t>(num_nodes) * kTableBytes));
  return DirectCache(format, std::move(arena), std::move(table));
}

void DirectCache::Fill(absl::Span<const NodeId> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    table_[nodes[i]] = static_cast<int64_t>(i);
  }
}

void DirectCache::Replace(absl::Span<const NodeId> in,
                          absl::Span<const NodeId> out,
                          std::vector<int64_t>& slots) {
  slots.resize(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    slots[i] = std::exchange(table_[out[i]], kAbsent);
    table_[in[i]] = slots[i];
  }
}

void DirectCache::Scatter(ThreadTeam& team, absl::Span<const int64_t> slots,
                          absl::Span<const int32_t> positions,
                          float* out) const {
  ScatterRows(
      team,
      StoredRows{
          .data = arena_.rows(), .dtype = format_.dtype, .dim = format_.dim},
      slots, positions, out);
}

}  // namespace hearth::cache
