#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/thread_team.h"
#include "engine/cache/direct_cache.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/train/train_step.h"

/// Assembles the rows of a batch out of the levels in memory and the rows that
/// were read, on the CPU or on a GPU.

namespace hearth::strategy {

/// The rows that the loaders have read for a batch.
struct LoadedRows {
  /// Where all rows of the batch are: each position is in one list.
  const AddressTable& table;
  /// Rows as stored, in the order of table.disk and of table.packed.
  absl::Span<const std::byte> disk;
  absl::Span<const std::byte> packed;
};

/// The feature assembler (DiskGNN, section 5.3): holds the rows of the GPU
/// cache and the CPU cache, and assembles the rows of batches. Used by one
/// thread at a time.
class RowAssembler {
 public:
  virtual ~RowAssembler() = default;

  /// Widens all rows of a batch to their positions in `out`, [rows of the
  /// batch, dim] float32 in host memory; complete on return. `team` shares the
  /// work of the CPU. INTERNAL or RESOURCE_EXHAUSTED, of a device.
  virtual absl::Status Assemble(const LoadedRows& batch, ThreadTeam& team,
                                float* out) = 0;

  /// As Assemble, but the rows stay on the assembler's device, for models that
  /// train there. On return they may still be on their way: `batch` must
  /// outlive the returned rows, whose end waits for them. The assembler
  /// outlives the rows. Null from an assembler without a device.
  virtual absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
  AssembleOnDevice(const LoadedRows& /*batch*/) {
    return nullptr;
  }

  /// Releases memory for batches, not the levels. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  virtual void Rest() = 0;
};

/// The files of a plan that an assembler loads.
struct LevelImages {
  io::FileSystem& files;
  /// The folder of the plan.
  std::string folder;
  const PackedLayout& layout;
  store::RowFormat format;

  RowImage gpu() const;
  RowImage cpu() const;
};

/// An assembler on the CPU with all levels in host memory, the GPU cache
/// included: the reference for the one on a GPU. RESOURCE_EXHAUSTED without
/// memory; otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCpuRowAssembler(
    const LevelImages& images, const std::stop_token& stop);

/// An assembler on a GPU (DiskGNN, sections 4, 5.3 and 6): the GPU cache is in
/// device memory, the CPU cache in pinned host memory, which the kernel reads
/// in place; rows that were read for a batch, and the lists of its table, are
/// copied to the device; one kernel widens the rows of all levels. All work is
/// on a stream of the assembler. AssembleOnDevice leaves the rows in a buffer
/// of a DeviceBufferPool; Assemble copies them to host memory on the same
/// stream, and waits.
///
/// Device memory, in addition to the GPU cache: for the largest batch so far
/// its rows from disk as stored and up to 12 bytes a row; for as many batches
/// as were assembled at once all rows as float32. RESOURCE_EXHAUSTED, with the
/// size, if device or host have no memory; INTERNAL if the device fails;
/// otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCudaRowAssembler(
    const cuda::Device& device, const LevelImages& images,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_
