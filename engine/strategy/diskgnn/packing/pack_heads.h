#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/team.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/disk_order.h"
#include "engine/strategy/diskgnn/packing/dispatch_spool.h"
#include "engine/strategy/diskgnn/packing/pack_context.h"

namespace hearth::strategy {

/// The results of the first stage of packing that others need.
struct PackHeads {
  /// Targets below the number of batches are packs; the others are segments of
  /// the disk cache.
  std::unique_ptr<DispatchSpool> dispatch;
  std::unique_ptr<DiskOrder> order;
};

/// The first stage of packing, segment by segment: orders the disk cache, makes
/// the address tables, writes the beginning of every chunk (header, graph
/// sample, address table) to `packs`, and spools which rows go where. Sets the
/// checksums of what it wrote in `layout`. The spools are scratch files in the
/// options' folder, the first one readable by all of `team`.
/// FAILED_PRECONDITION if a batch is not what was measured.
absl::StatusOr<PackHeads> WritePackHeads(const PackContext& context,
                                         const DispatchOptions& dispatch,
                                         Team& team, io::WritableFile& packs,
                                         PackedLayout& layout);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_
