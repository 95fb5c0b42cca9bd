#include "engine/strategy/gids/locator.h"

#include <cstddef>
#include <utility>

namespace hearth::strategy {

void Locator::Enter(absl::Span<const store::NodeId> nodes, LocatedRows& rows) {
  constexpr size_t kAhead = 16;
  rows = LocatedRows();
  slots_.reserve(nodes.size());  // Alone, resize may take twice as much.
  slots_.resize(nodes.size());
  size_t buffered = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) buffered_.Prefetch(nodes[i + kAhead]);
    slots_[i] = buffered_.Find(nodes[i]);
    if (slots_[i] != cache::RowSet::kAbsent) ++buffered;
  }
  rows.buffer_slots.reserve(buffered);
  rows.buffer_positions.reserve(buffered);
  rows.entry_positions.reserve(nodes.size() - buffered);
  outside_.clear();
  outside_.reserve(nodes.size() - buffered);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (slots_[i] == cache::RowSet::kAbsent) {
      outside_.push_back(nodes[i]);
      rows.entry_positions.push_back(static_cast<int32_t>(i));
    } else {
      rows.buffer_slots.push_back(slots_[i]);
      rows.buffer_positions.push_back(static_cast<int32_t>(i));
    }
  }
  window_.Enter(outside_, rows.entries);
}

void Locator::Locate(absl::Span<const store::NodeId> nodes, RandomStream random,
                     LocatedRows& rows) {
  places_.reserve(rows.entries.size());
  places_.resize(rows.entries.size());
  size_t hits = 0;
  size_t entering = 0;
  for (size_t i = 0; i < rows.entries.size(); ++i) {
    places_[i] = window_.Locate(rows.entries[i], random);
    if (places_[i].is_hit) {
      ++hits;
    } else if (places_[i].line != cache::WindowCache::kNoLine) {
      ++entering;
    }
  }
  window_.Leave(rows.entries);
  rows.entries = {};
  rows.lines.reserve(hits);
  rows.line_positions.reserve(hits);
  rows.entering.reserve(entering);
  rows.entering_lines.reserve(entering);
  rows.missing.reserve(places_.size() - hits);
  rows.missing_positions.reserve(places_.size() - hits);
  for (size_t i = 0; i < places_.size(); ++i) {
    const cache::WindowCache::Place& place = places_[i];
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
  rows.entry_positions = {};
}

}  // namespace hearth::strategy
