#include "engine/strategy/gids/constant_buffer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/io/row_reader.h"

namespace hearth::strategy {
namespace {

// Rows that are read at once, so that the memory for planning stays small.
constexpr size_t kRowsAtOnce = 64 << 10;
constexpr size_t kDepth = 64;

}  // namespace

absl::StatusOr<ConstantBuffer> ConstantBuffer::Load(
    const store::StoredFeatures& features, const io::RowCheck* check,
    absl::Span<const store::NodeId> nodes, io::ReadQueues& queues,
    const Clock& clock, const cuda::Device* gpu, std::stop_token stop,
    io::ReadTally& tally) {
  ConstantBuffer buffer;
  if (nodes.empty()) return buffer;
  const size_t row_bytes = features.layout.row_bytes;
  HEARTH_ASSIGN_OR_RETURN(
      cache::SlotArena arena,
      cache::SlotArena::Make(static_cast<int64_t>(nodes.size()),
                             features.layout.row_bytes));
  HEARTH_ASSIGN_OR_RETURN(const io::ReadQueues::Handle queue,
                          queues.Take(kDepth));
  io::RowReaderOptions options = {.clock = &clock, .check = check};
  options.staging_bytes = std::max(
      options.staging_bytes,
      io::RowStream::MinStagingBytes(*features.device, features.layout));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::RowReader> reader,
      io::RowReader::Create(*features.device, features.layout, *queue,
                            options));
  for (size_t first = 0; first < nodes.size(); first += kRowsAtOnce) {
    HEARTH_RETURN_IF_ERROR(reader->Read(
        nodes.subspan(first, kRowsAtOnce),
        [&](size_t position, const std::byte* row) {
          std::memcpy(arena.row(static_cast<int64_t>(first + position)), row,
                      row_bytes);
        },
        stop, tally));
  }
  buffer.nodes_ = cache::RowSet(features.layout.num_rows, nodes);
  buffer.rows_ = std::make_unique<Rows>(Rows{.arena = std::move(arena)});
  if (gpu != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        buffer.rows_->pinned,
        cuda::Registration::Register(
            *gpu, {buffer.rows(), nodes.size() * row_bytes}));
  }
  return buffer;
}

uint64_t ConstantBuffer::MemoryBytes(int64_t num_rows, int64_t row_bytes,
                                     int64_t num_nodes) {
  if (num_rows == 0) return 0;
  return static_cast<uint64_t>(num_rows) * static_cast<uint64_t>(row_bytes) +
         cache::RowSet::MemoryBytes(num_nodes);
}

int64_t ConstantBuffer::Capacity(uint64_t budget_bytes, int64_t row_bytes,
                                 int64_t num_nodes) {
  const uint64_t set_bytes = cache::RowSet::MemoryBytes(num_nodes);
  if (budget_bytes <= set_bytes) return 0;
  return static_cast<int64_t>(std::min<uint64_t>(
      (budget_bytes - set_bytes) / static_cast<uint64_t>(row_bytes),
      static_cast<uint64_t>(num_nodes)));
}

}  // namespace hearth::strategy
