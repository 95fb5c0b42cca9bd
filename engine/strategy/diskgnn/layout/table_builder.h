#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_TABLE_BUILDER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_TABLE_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/address_table.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"

namespace hearth::strategy {

/// Makes the address tables of a segment's batches. A batch's packed rows stand
/// in the order of the nodes, so that a scan of the features appends them.
/// Reused, it allocates nothing in the long run. Single-owner.
class TableBuilder {
 public:
  /// Makes the table of a batch with these input nodes, in a segment that
  /// `planner` has ordered and whose disk cache begins at row `disk_base` of
  /// the file.
  void Build(const SegmentPlanner& planner, int64_t disk_base,
             absl::Span<const store::NodeId> nodes);

  const AddressTable& table() const { return table_; }

  /// The nodes of the batch's pack, ascending.
  absl::Span<const store::NodeId> packed_nodes() const { return packed_nodes_; }

 private:
  // A row of a level, and the position that it belongs to.
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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_TABLE_BUILDER_H_
