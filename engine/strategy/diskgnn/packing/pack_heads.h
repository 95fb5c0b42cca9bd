#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/thread_team.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/sample/dispatch_spool.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/disk_cache_writer.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"

/// The first stage of packing: address tables (TableBuilder), and the beginning
/// of every chunk (WritePackHeads).

namespace hearth::strategy {

/// Makes the address tables of a segment's batches. A batch's packed rows are
/// in the order of the nodes, so that a scan of the features appends them.
/// Reuse saves allocations. Single-owner.
class TableBuilder {
 public:
  /// Makes the table of a batch with input nodes `nodes`, in the segment that
  /// `planner` has ordered, whose disk cache begins at row `disk_base` of the
  /// file.
  void Build(const SegmentPlanner& planner, int64_t disk_base,
             absl::Span<const store::NodeId> nodes);

  const AddressTable& table() const { return table_; }

  /// The nodes of the batch's pack, ascending.
  absl::Span<const store::NodeId> packed_nodes() const { return packed_nodes_; }

 private:
  // A row of a level, and its position in the batch.
  using Address = std::pair<int64_t, int32_t>;

  void Sort(std::vector<Address>& from, std::vector<int64_t>& rows,
            std::vector<int32_t>& positions);

  std::vector<Address> gpu_;
  std::vector<Address> cpu_;
  std::vector<Address> disk_;
  std::vector<Address> packed_;
  std::vector<Address> scratch_;
  std::vector<store::NodeId> packed_nodes_;
  AddressTable table_;
};

/// The results of the first stage of packing.
struct PackHeads {
  /// Where rows go. Targets below the number of batches are packs; the others
  /// are segments of the disk cache.
  std::unique_ptr<sample::DispatchSpool> dispatch;
  std::unique_ptr<DiskOrder> order;
};

/// The first stage of packing, segment by segment: orders the disk cache, makes
/// the address tables, writes the beginning of every chunk (header, graph
/// sample, address table) to `packs`, and spools the destinations of rows. Sets
/// the checksums of the written ranges in `layout`. The spools are scratch
/// files in the options' folder; `dispatch` has a reader for each worker of
/// `team`. FAILED_PRECONDITION if a batch differs from what was measured.
absl::StatusOr<PackHeads> WritePackHeads(
    const PackContext& context, const sample::DispatchOptions& dispatch,
    ThreadTeam& team, io::WritableFile& packs, PackedLayout& layout);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_HEADS_H_
