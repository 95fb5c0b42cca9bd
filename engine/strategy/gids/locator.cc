#include "engine/strategy/gids/locator.h"

#include <cstddef>
#include <utility>

namespace hearth::strategy {

void Locator::Enter(absl::Span<const store::NodeId> nodes, LocatedRows& rows) {
  constexpr size_t kAhead = 16;
  rows = LocatedRows();
  outside_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) buffered_.Prefetch(nodes[i + kAhead]);
    const int64_t slot = buffered_.Find(nodes[i]);
    if (slot == cache::RowSet::kAbsent) {
      outside_.push_back(nodes[i]);
      rows.entry_positions.push_back(static_cast<int32_t>(i));
    } else {
      rows.buffer_slots.push_back(slot);
      rows.buffer_positions.push_back(static_cast<int32_t>(i));
    }
  }
  window_.Enter(outside_, rows.entries);
}

void Locator::Locate(absl::Span<const store::NodeId> nodes, RandomStream random,
                     LocatedRows& rows) {
  for (size_t i = 0; i < rows.entries.size(); ++i) {
    const cache::WindowCache::Place place =
        window_.Locate(rows.entries[i], random);
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
  window_.Leave(rows.entries);
  rows.entries = {};
  rows.entry_positions = {};
}

}  // namespace hearth::strategy
