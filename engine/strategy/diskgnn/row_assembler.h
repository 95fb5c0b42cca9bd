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

namespace hearth::strategy {

/// A batch as the loaders leave it.
struct LoadedRows {
  /// Where all its rows are: each of its positions in one list.
  const AddressTable& table;
  /// As stored, in the order of table.disk and of table.packed.
  absl::Span<const std::byte> disk;
  absl::Span<const std::byte> packed;
};

/// The feature assembler (DiskGNN, section 5.3): holds the rows of the levels
/// in memory, GPU cache and CPU cache, and brings those of a batch together.
/// Used by one thread at a time.
class RowAssembler {
 public:
  virtual ~RowAssembler() = default;

  /// Widens all rows of a batch to where they belong in `out`, [rows of the
  /// batch, dim] float32 in host memory; done when it returns. The team shares
  /// the work of processors. INTERNAL or RESOURCE_EXHAUSTED, of a device.
  virtual absl::Status Assemble(const LoadedRows& batch, ThreadTeam& team,
                                float* out) = 0;

  /// The same, but the rows stay on the device where they were brought
  /// together, for models that train there, and are yet to be there when it
  /// returns: the batch stays until they are destroyed, which waits for that.
  /// The assembler outlives them. Null from an assembler without a device.
  virtual absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
  AssembleOnDevice(const LoadedRows& /*batch*/) {
    return nullptr;
  }

  /// Gives back what it holds for batches. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  virtual void Rest() = 0;
};

/// The parts of a plan that an assembler loads.
struct LevelImages {
  io::FileSystem& files;
  /// The folder of the plan.
  std::string folder;
  const PackedLayout& layout;
  store::RowFormat format;

  RowImage gpu() const;
  RowImage cpu() const;
};

/// Assembles on the CPU, with all levels in host memory; rows of a GPU cache,
/// too, so that it is the twin of an assembler on a GPU. RESOURCE_EXHAUSTED
/// without memory; otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCpuRowAssembler(
    const LevelImages& images, const std::stop_token& stop);

/// Pinned host memory through which rows go to the GPU cache: while the
/// assembler is made, and beside the CPU cache.
inline constexpr uint64_t kGpuLoadBytes = 4 << 20;

/// Assembles on a GPU (DiskGNN, sections 4, 5.3 and 6): the GPU cache lies in
/// device memory and the CPU cache in pinned host memory, which the kernel
/// reads in place; what was read for a batch, and the lists of its table, are
/// copied to the device; one kernel widens the rows of all levels. That is done
/// on a stream of the assembler's own. There AssembleOnDevice leaves the rows,
/// in a room for each batch that has some (device_rooms.h); Assemble copies
/// them to host memory on the same stream, and waits for that.
///
/// On the device it holds, beside the GPU cache, the largest batch so far: its
/// rows from disk as they are stored, and up to 12 bytes a row; and for as many
/// batches as were assembled at once all rows as float32. RESOURCE_EXHAUSTED,
/// with the size, if device or host have no memory; INTERNAL if the device
/// fails; otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCudaRowAssembler(
    const cuda::Device& device, const LevelImages& images,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_
