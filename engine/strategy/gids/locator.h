#ifndef HEARTH_ENGINE_STRATEGY_GIDS_LOCATOR_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_LOCATOR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/cache/row_set.h"
#include "engine/cache/window_cache.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_LOCATOR_H_
