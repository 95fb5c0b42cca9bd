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

namespace hearth::strategy {

/// Rows that stay in memory as long as a strategy has them (GIDS, section 3.3),
/// as stored, in the order of their nodes. Immutable once loaded; movable.
class ConstantBuffer {
 public:
  /// Without rows.
  ConstantBuffer() = default;

  /// Reads the rows of `nodes`, which ascend; a null `check` checks none. Adds
  /// what that took to `tally`. Pins the rows for `gpu`, which then reads them
  /// as they are; null: none does. RESOURCE_EXHAUSTED without memory;
  /// CANCELLED when a stop is requested; errors of reading, and of
  /// cuda::Registration.
  static absl::StatusOr<ConstantBuffer> Load(
      const store::StoredFeatures& features, const io::RowCheck* check,
      absl::Span<const store::NodeId> nodes, io::ReadQueues& queues,
      const Clock& clock, const cuda::Device* gpu, std::stop_token stop,
      io::ReadTally& tally);

  /// Which nodes' rows are there; their place is that of the row.
  const cache::RowSet& nodes() const { return nodes_; }

  /// The row at place 0; null without rows.
  const std::byte* rows() const {
    return rows_ != nullptr ? rows_->arena.rows() : nullptr;
  }

  /// Memory for `num_rows` rows of a graph of `num_nodes` nodes.
  static uint64_t MemoryBytes(int64_t num_rows, int64_t row_bytes,
                              int64_t num_nodes);

  /// Rows that fit, with the set, into `budget_bytes`; no more than there are
  /// nodes.
  static int64_t Capacity(uint64_t budget_bytes, int64_t row_bytes,
                          int64_t num_nodes);

 private:
  struct Rows {
    cache::SlotArena arena;
    // Ends before the arena.
    cuda::Registration pinned = {};
  };

  cache::RowSet nodes_;
  std::unique_ptr<Rows> rows_;
};

/// Where the rows of a batch are found. Positions are those among its input
/// nodes; each is in one of the three parts.
struct LocatedRows {
  /// In the constant buffer: place and position.
  std::vector<int64_t> buffer_slots;
  std::vector<int32_t> buffer_positions;
  /// In the window cache, once the batches before have gone through it: line
  /// and position.
  std::vector<int64_t> lines;
  std::vector<int32_t> line_positions;
  /// On disk: node and position.
  std::vector<store::NodeId> missing;
  std::vector<int32_t> missing_positions;
  /// Missing rows that the window cache keeps: index among them, and line.
  std::vector<int64_t> entering;
  std::vector<int32_t> entering_lines;
  /// While the batch is in the window: the entries of its nodes outside the
  /// constant buffer, and their positions.
  std::vector<cache::WindowCache::Entry> entries;
  std::vector<int32_t> entry_positions;

  int64_t num_rows() const {
    return static_cast<int64_t>(buffer_positions.size() +
                                line_positions.size() +
                                missing_positions.size());
  }

  /// Missing rows that are read and not kept.
  int64_t bypassed() const {
    return static_cast<int64_t>(missing.size() - entering.size());
  }

  /// Bytes for each row while the batch is in the window: it is in the constant
  /// buffer or has an entry.
  static constexpr uint64_t kEnteredBytesPerRow =
      sizeof(int64_t) + sizeof(int32_t);
  /// Bytes for each row once it is located: it is in one of the parts, and may
  /// be entering the cache. Lists have no room for more.
  static constexpr uint64_t kBytesPerRow =
      2 * (sizeof(int64_t) + sizeof(int32_t));
};

/// Decides, batch by batch and from node ids alone, where GIDS finds rows and
/// which ones it keeps. Bytes move later, in the same order, so that neither
/// hits nor reads depend on how fast anything is. Single-owner.
class Locator {
 public:
  /// All of it outlives the locator.
  Locator(const cache::RowSet& buffered, cache::WindowCache& window)
      : buffered_(buffered), window_(window) {}

  /// A batch with these input nodes enters the window; those that are in the
  /// constant buffer bypass it. REQUIRES: batches enter in their order.
  void Enter(absl::Span<const store::NodeId> nodes, LocatedRows& rows);

  /// Locates the rows of the oldest batch that has entered, which then leaves
  /// the window. Rows that make room are drawn from `random`.
  void Locate(absl::Span<const store::NodeId> nodes, RandomStream random,
              LocatedRows& rows);

  /// Bytes for each row of the largest batch, beside those of its LocatedRows.
  static constexpr uint64_t kBytesPerRow = 4 * sizeof(int64_t);

 private:
  const cache::RowSet& buffered_;
  cache::WindowCache& window_;
  // Where the rows of a batch were found, kept so that its lists are made as
  // long as they will be.
  std::vector<int64_t> slots_;
  std::vector<cache::WindowCache::Place> places_;
  // Those outside the constant buffer.
  std::vector<store::NodeId> outside_;
};

/// A batch that is read: where its rows are, and those that were missing.
struct ReadBatch {
  const LocatedRows& rows;
  const ConstantBuffer& buffer;
  /// Rows of rows.missing, as stored, in their order.
  absl::Span<const std::byte> missing;
};

/// Holds the lines of the window cache, brings the rows of a batch together and
/// puts those that the cache keeps into their lines. Batches come in the order
/// in which they were located. Used by one thread at a time.
class BatchAssembler {
 public:
  virtual ~BatchAssembler() = default;

  /// Widens all rows of the batch to where they belong in `out`, [rows of the
  /// batch, dim] float32 in host memory; done when it returns. INTERNAL or
  /// RESOURCE_EXHAUSTED, of a device.
  virtual absl::Status Assemble(const ReadBatch& batch, float* out) = 0;

  /// The same, but the rows stay on the device that has the lines, for models
  /// that train there, and are yet to be there when it returns; the batch is no
  /// longer needed. The assembler and the constant buffer outlive them. Null
  /// from an assembler without a device.
  virtual absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
  AssembleOnDevice(const ReadBatch& /*batch*/) {
    return nullptr;
  }

  /// Gives back what it holds for batches, not the lines. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  virtual void Rest() = 0;
};

/// With lines in host memory. RESOURCE_EXHAUSTED if the system has none.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewHostAssembler(
    int64_t num_lines, const store::RowFormat& format);

/// With lines in the memory of `device`, which reads rows of constant buffers
/// from host memory as they are (ConstantBuffer::Load pins them) and has copies
/// of the missing rows. Beside the lines it holds there, for the largest batch
/// so far, its missing rows and up to 16 bytes a row; and for as many batches
/// as were assembled at once all rows as float32. RESOURCE_EXHAUSTED, with the
/// size, if the device has no memory; INTERNAL if it fails.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewDeviceAssembler(
    const cuda::Device& device, int64_t num_lines,
    const store::RowFormat& format);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_
