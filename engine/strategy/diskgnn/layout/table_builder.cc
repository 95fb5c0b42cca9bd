#include "engine/strategy/diskgnn/layout/table_builder.h"

#include <cstddef>

#include "engine/strategy/diskgnn/layout/radix_sort.h"

namespace hearth::strategy {

using store::NodeId;

void TableBuilder::Build(const SegmentPlanner& planner, int64_t disk_base,
                         absl::Span<const NodeId> nodes) {
  for (auto* list : {&gpu_, &cpu_, &disk_, &packed_}) list->clear();
  const MemoryLevels& levels = planner.levels();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[i];
    const auto position = static_cast<int32_t>(i);
    switch (planner.LevelOf(node)) {
      case Level::kGpu:
        gpu_.push_back({levels.SlotOf(node), position});
        break;
      case Level::kCpu:
        cpu_.push_back({levels.SlotOf(node), position});
        break;
      case Level::kDisk:
        disk_.push_back({disk_base + planner.PlaceOf(node), position});
        break;
      case Level::kPack:
        packed_.push_back({node, position});
        break;
    }
  }
  Sort(gpu_, table_.gpu.rows, table_.gpu.positions);
  Sort(cpu_, table_.cpu.rows, table_.cpu.positions);
  Sort(disk_, table_.disk.rows, table_.disk.positions);
  Sort(packed_, packed_nodes_, table_.packed);
}

void TableBuilder::Sort(std::vector<Address>& from, std::vector<int64_t>& rows,
                        std::vector<int32_t>& positions) {
  RadixSort(from, scratch_,
            [](const Address& address) { return address.first; });
  rows.clear();
  positions.clear();
  for (const auto& [row, position] : from) {
    rows.push_back(row);
    positions.push_back(position);
  }
}

}  // namespace hearth::strategy
