#ifndef HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/cache/row_memory.h"
#include "engine/cache/window_cache.h"
#include "engine/cuda/device.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/topology.h"
#include "engine/train/train_step.h"

/// Where GIDS finds the rows of a batch (ConstantBuffer, Locator), and how they
/// are assembled in host memory or on a GPU (BatchAssembler).

namespace hearth::strategy {

/// The rows of hot nodes, in memory for good (GIDS, section 3.3), as stored, in
/// the order of their nodes. Immutable once loaded; movable.
class ConstantBuffer {
 public:
  /// A buffer without rows.
  ConstantBuffer() = default;

  /// Reads the rows of `nodes`, which ascend; a null `check` checks no row.
  /// Adds the reads to `tally`. Pins the rows so that `gpu` can read them in
  /// place; null: no GPU reads them. RESOURCE_EXHAUSTED without memory;
  /// CANCELLED when a stop is requested; errors of reading, and of
  /// cuda::Registration.
  static absl::StatusOr<ConstantBuffer> Load(
      const store::StoredFeatures& features, const io::RowCheck* check,
      absl::Span<const store::NodeId> nodes, io::ReadQueues& queues,
      const Clock& clock, const cuda::Device* gpu, std::stop_token stop,
      io::ReadTally& tally);

  /// The nodes with a row in the buffer; a node's place in the set is the place
  /// of its row.
  const cache::RowSet& nodes() const { return nodes_; }

  /// The rows, from place 0 on; null without rows.
  const std::byte* rows() const {
    return rows_ != nullptr ? rows_->arena.rows() : nullptr;
  }

  /// Memory for `num_rows` rows of a graph of `num_nodes` nodes.
  static uint64_t MemoryBytes(int64_t num_rows, int64_t row_bytes,
                              int64_t num_nodes);

  /// Rows that fit into `budget_bytes`, together with the set; at most
  /// `num_nodes`.
  static int64_t Capacity(uint64_t budget_bytes, int64_t row_bytes,
                          int64_t num_nodes);

 private:
  struct Rows {
    cache::SlotArena arena;
    // Destroyed before the arena.
    cuda::Registration pinned = {};
  };

  cache::RowSet nodes_;
  std::unique_ptr<Rows> rows_;
};

/// Where the rows of a batch are found. A position is an index of an input
/// node; each position is in exactly one of the three parts.
struct LocatedRows {
  /// Rows in the constant buffer: place and position.
  std::vector<int64_t> buffer_slots;
  std::vector<int32_t> buffer_positions;
  /// Rows in the window cache, once all earlier batches have gone through it:
  /// line and position.
  std::vector<int64_t> lines;
  std::vector<int32_t> line_positions;
  /// Rows on disk: node and position.
  std::vector<store::NodeId> missing;
  std::vector<int32_t> missing_positions;
  /// Missing rows that the window cache keeps: index in `missing`, and line.
  std::vector<int64_t> entering;
  std::vector<int32_t> entering_lines;
  /// While the batch is in the window: window cache entries of its nodes
  /// outside the constant buffer, and their positions.
  std::vector<cache::WindowCache::Entry> entries;
  std::vector<int32_t> entry_positions;

  int64_t num_rows() const {
    return static_cast<int64_t>(buffer_positions.size() +
                                line_positions.size() +
                                missing_positions.size());
  }

  /// Missing rows that the window cache does not keep.
  int64_t bypassed() const {
    return static_cast<int64_t>(missing.size() - entering.size());
  }

  /// Bytes for each row while the batch is in the window: the row is in the
  /// constant buffer or has an entry.
  static constexpr uint64_t kEnteredBytesPerRow =
      sizeof(int64_t) + sizeof(int32_t);
  /// Bytes for each row once the batch is located: the row is in one of the
  /// parts and may also be entering the cache. Lists have no spare capacity.
  static constexpr uint64_t kBytesPerRow =
      2 * (sizeof(int64_t) + sizeof(int32_t));
};

/// Decides, batch by batch and from node ids alone, where GIDS finds rows and
/// which rows the window cache keeps. Bytes move later, in the same order, so
/// that neither hits nor reads depend on timing. Single-owner.
class Locator {
 public:
  /// Both arguments outlive the locator.
  Locator(const cache::RowSet& buffered, cache::WindowCache& window)
      : buffered_(buffered), window_(window) {}

  /// Enters a batch with these input nodes into the window; nodes in the
  /// constant buffer bypass it. REQUIRES: batches enter in order.
  void Enter(absl::Span<const store::NodeId> nodes, LocatedRows& rows);

  /// Locates the rows of the oldest batch in the window, which then leaves it.
  /// Rows to evict are drawn from `random`.
  void Locate(absl::Span<const store::NodeId> nodes, RandomStream random,
              LocatedRows& rows);

  /// Bytes for each row of the largest batch, without its LocatedRows.
  static constexpr uint64_t kBytesPerRow = 4 * sizeof(int64_t);

 private:
  const cache::RowSet& buffered_;
  cache::WindowCache& window_;
  // Places of the current batch's rows: known before its lists are filled, so
  // that these are allocated at their final lengths.
  std::vector<int64_t> slots_;
  std::vector<cache::WindowCache::Place> places_;
  // The current batch's nodes outside the constant buffer.
  std::vector<store::NodeId> outside_;
};

/// A batch whose missing rows were read.
struct ReadBatch {
  const LocatedRows& rows;
  const ConstantBuffer& buffer;
  /// The rows of rows.missing, as stored, in the same order.
  absl::Span<const std::byte> missing;
};

/// Holds the lines of the window cache, assembles the rows of batches, and puts
/// the rows that the cache keeps into their lines. Batches come in the order in
/// which they were located. Used by one thread at a time.
class BatchAssembler {
 public:
  virtual ~BatchAssembler() = default;

  /// Widens all rows of the batch to their positions in `out`, [rows of the
  /// batch, dim] float32 in host memory; complete on return. INTERNAL or
  /// RESOURCE_EXHAUSTED, of a device.
  virtual absl::Status Assemble(const ReadBatch& batch, float* out) = 0;

  /// As Assemble, but the rows stay on the device that has the lines, for
  /// models that train there. On return the batch is no longer needed, while
  /// the rows may still be on their way. The assembler and the constant buffer
  /// outlive the rows. Null from an assembler without a device.
  virtual absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
  AssembleOnDevice(const ReadBatch& /*batch*/) {
    return nullptr;
  }

  /// Releases memory for batches, not the lines. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  virtual void Rest() = 0;
};

/// An assembler with lines in host memory. RESOURCE_EXHAUSTED if the system has
/// no memory.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewHostAssembler(
    int64_t num_lines, const store::RowFormat& format);

/// An assembler with lines in the memory of `device`, which reads rows of
/// constant buffers in host memory in place (ConstantBuffer::Load pins them)
/// and copies missing rows. Device memory, in addition to the lines: for the
/// largest batch so far its missing rows and up to 16 bytes a row; for as many
/// batches as were assembled at once all rows as float32. RESOURCE_EXHAUSTED,
/// with the size, if the device has no memory; INTERNAL if it fails.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewDeviceAssembler(
    const cuda::Device& device, int64_t num_lines,
    const store::RowFormat& format);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_
