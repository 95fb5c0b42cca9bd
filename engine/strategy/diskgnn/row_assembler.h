#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/team.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/store/row_format.h"
#include "engine/strategy/diskgnn/layout/address_table.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/row_image.h"
#include "engine/train/device_rows.h"

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
  virtual absl::Status Assemble(const LoadedRows& batch, Team& team,
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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_ROW_ASSEMBLER_H_
