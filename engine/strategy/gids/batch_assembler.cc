#include "engine/strategy/gids/batch_assembler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/cache/assemble.h"
#include "engine/cache/row_memory.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/io/row_reader.h"
#include "engine/strategy/device_buffers.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

namespace {

// Rows read by one call: bounds the memory for planning reads.
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

void Locator::Enter(absl::Span<const store::NodeId> nodes, LocatedRows& rows) {
  constexpr size_t kAhead = 16;
  rows = LocatedRows();
  slots_.reserve(nodes.size());  // Alone, resize may take twice as much.
  slots_.resize(nodes.size());
  size_t buffered = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) buffered_.Prefetch(nodes[i + kAhead]);
    slots_[i] = buffered_.Find(nodes[i]);
    if (slots_[i] != cache::RowSet::kAbsent) ++buffered;
  }
  rows.buffer_slots.reserve(buffered);
  rows.buffer_positions.reserve(buffered);
  rows.entry_positions.reserve(nodes.size() - buffered);
  outside_.clear();
  outside_.reserve(nodes.size() - buffered);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (slots_[i] == cache::RowSet::kAbsent) {
      outside_.push_back(nodes[i]);
      rows.entry_positions.push_back(static_cast<int32_t>(i));
    } else {
      rows.buffer_slots.push_back(slots_[i]);
      rows.buffer_positions.push_back(static_cast<int32_t>(i));
    }
  }
  window_.Enter(outside_, rows.entries);
}

void Locator::Locate(absl::Span<const store::NodeId> nodes, RandomStream random,
                     LocatedRows& rows) {
  places_.reserve(rows.entries.size());
  places_.resize(rows.entries.size());
  size_t hits = 0;
  size_t entering = 0;
  for (size_t i = 0; i < rows.entries.size(); ++i) {
    places_[i] = window_.Locate(rows.entries[i], random);
    if (places_[i].is_hit) {
      ++hits;
    } else if (places_[i].line != cache::WindowCache::kNoLine) {
      ++entering;
    }
  }
  window_.Leave(rows.entries);
  rows.entries = {};
  rows.lines.reserve(hits);
  rows.line_positions.reserve(hits);
  rows.entering.reserve(entering);
  rows.entering_lines.reserve(entering);
  rows.missing.reserve(places_.size() - hits);
  rows.missing_positions.reserve(places_.size() - hits);
  for (size_t i = 0; i < places_.size(); ++i) {
    const cache::WindowCache::Place& place = places_[i];
    const int32_t position = rows.entry_positions[i];
    if (place.is_hit) {
      rows.lines.push_back(place.line);
      rows.line_positions.push_back(position);
      continue;
    }
    if (place.line != cache::WindowCache::kNoLine) {
      rows.entering.push_back(static_cast<int64_t>(rows.missing.size()));
      rows.entering_lines.push_back(place.line);
    }
    rows.missing.push_back(nodes[static_cast<size_t>(position)]);
    rows.missing_positions.push_back(position);
  }
  rows.entry_positions = {};
}

namespace {

class HostAssembler final : public BatchAssembler {
 public:
  HostAssembler(cache::SlotArena lines, const store::RowFormat& format)
      : lines_(std::move(lines)), format_(format) {}

  absl::Status Assemble(const ReadBatch& batch, float* out) override {
    const LocatedRows& rows = batch.rows;
    cache::ScatterRows(StoredRows(batch.buffer.rows()), rows.buffer_slots,
                       rows.buffer_positions, out);
    // Before missing rows of this batch replace rows in lines.
    cache::ScatterRows(StoredRows(lines_.rows()), rows.lines,
                       rows.line_positions, out);
    cache::ScatterRows(StoredRows(batch.missing.data()), rows.missing_positions,
                       out);
    const auto row_bytes = static_cast<size_t>(lines_.row_bytes());
    for (size_t i = 0; i < rows.entering.size(); ++i) {
      std::memcpy(lines_.row(rows.entering_lines[i]),
                  batch.missing.data() +
                      static_cast<size_t>(rows.entering[i]) * row_bytes,
                  row_bytes);
    }
    return absl::OkStatus();
  }

  void Rest() override {}

 private:
  cache::StoredRows StoredRows(const std::byte* data) const {
    return {.data = data, .dtype = format_.dtype, .dim = format_.dim};
  }

  cache::SlotArena lines_;
  const store::RowFormat format_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchAssembler>> NewHostAssembler(
    int64_t num_lines, const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      cache::SlotArena lines,
      cache::SlotArena::Make(num_lines, format.row_bytes()));
  return std::make_unique<HostAssembler>(std::move(lines), format);
}

// Assembling a batch on a device, all in one stream:
//
//  1. Take a buffer for its rows, which the stream fills once copies of the
//     buffer's former rows are done.
//  2. Queue copies of its missing rows and of the lists that say where rows
//     are; then an event.
//  3. Queue the scatter of rows of the constant buffer, missing rows and lines.
//  4. Queue copies of missing rows that the cache keeps to their lines: after
//     the scatter, which may need the lines' former rows.
//  5. Rows that stay: record an event; the batch may go once its copies are
//     done. Other rows: copy them to the host.

namespace {

using cuda::Memory;

class DeviceAssembler final : public BatchAssembler {
 public:
  DeviceAssembler(const cuda::Device& device, const store::RowFormat& format,
                  Memory lines, std::unique_ptr<cuda::Event> copied,
                  std::unique_ptr<cuda::Stream> stream)
      : format_(format),
        lines_(std::move(lines)),
        copied_(std::move(copied)),
        staging_(device),
        stream_(std::move(stream)),
        buffers_(device) {}

  absl::Status Assemble(const ReadBatch& batch, float* out) override {
    return buffers_.FillAndCopy(
        InputBytes(batch), *stream_,
        [&](std::byte* rows) { return QueueRows(batch, rows); }, out);
  }

  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> AssembleOnDevice(
      const ReadBatch& batch) override {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<DeviceBufferPool::Lease> rows,
        buffers_.Fill(InputBytes(batch), *stream_,
                      [&](std::byte* out) { return QueueRows(batch, out); }));
    const absl::Status status = copied_->Wait();
    if (!status.ok()) {
      stream_->Wait().IgnoreError();
      return status;
    }
    return rows;
  }

  // No work is queued: the end of all rows has waited for it.
  void Rest() override {
    buffers_.Clear();
    staging_.Clear();
  }

 private:
  uint64_t InputBytes(const ReadBatch& batch) const {
    return static_cast<uint64_t>(batch.rows.num_rows() * format_.dim) *
           sizeof(float);
  }

  absl::Status QueueRows(const ReadBatch& batch, std::byte* out) {
    const LocatedRows& rows = batch.rows;
    staging_.Begin();
    const DeviceStaging::Part buffered = staging_.AddReached(
        batch.buffer.rows(), rows.buffer_slots, rows.buffer_positions);
    const DeviceStaging::Part missing =
        staging_.AddCopied(batch.missing, rows.missing_positions);
    const DeviceStaging::Part cached =
        staging_.AddReached(lines_.data(), rows.lines, rows.line_positions);
    const DeviceStaging::Part entering =
        staging_.AddRowsOf(missing, rows.entering, rows.entering_lines);
    HEARTH_RETURN_IF_ERROR(staging_.QueueCopies(*stream_));
    HEARTH_RETURN_IF_ERROR(stream_->Record(*copied_));
    HearthCudaScatter scatter = {};
    scatter.element = CudaElement(format_.dtype);
    scatter.dim = format_.dim;
    scatter.out = reinterpret_cast<float*>(out);
    // Rows in host memory come first.
    scatter.parts[0] = staging_.At(buffered);
    scatter.parts[1] = staging_.At(missing);
    scatter.parts[2] = staging_.At(cached);
    HEARTH_RETURN_IF_ERROR(stream_->Scatter(scatter));
    return QueueStoredRows(*stream_, staging_.At(entering), rows.entering,
                           rows.entering_lines, format_.row_bytes(),
                           lines_.data());
  }

  const store::RowFormat format_;
  Memory lines_;
  // Recorded behind the copies of the batch that was queued last.
  const std::unique_ptr<cuda::Event> copied_;
  DeviceStaging staging_;
  // Destroyed (which waits for its work) before the memory that the work uses,
  // and after the buffers, whose readers wait for the work.
  const std::unique_ptr<cuda::Stream> stream_;
  DeviceBufferPool buffers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchAssembler>> NewDeviceAssembler(
    const cuda::Device& device, int64_t num_lines,
    const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      Memory lines,
      Memory::Allocate(device, Memory::Kind::kDevice,
                       static_cast<uint64_t>(num_lines * format.row_bytes())));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Event> copied,
                          cuda::Event::Create(device));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                          cuda::Stream::Create(device));
  return std::make_unique<DeviceAssembler>(
      device, format, std::move(lines), std::move(copied), std::move(stream));
}

}  // namespace hearth::strategy
