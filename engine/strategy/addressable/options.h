#ifndef HEARTH_ENGINE_STRATEGY_ADDRESSABLE_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_ADDRESSABLE_OPTIONS_H_

namespace hearth::strategy {

/// Features and topology in memory: the reference for all others.
struct MemoryOptions {
  bool operator==(const MemoryOptions&) const = default;
};

/// Features and neighbors mapped from the dataset's files; the page cache
/// decides what stays (the PyG+ baseline of the Ginex paper, section 2.3).
/// Where each node's neighbors begin, 8 bytes a node, is in memory.
struct MmapOptions {
  /// The kernel reads pages ahead, by as much as the disk is set to
  /// (read_ahead_kb), instead of single ones.
  bool read_ahead = false;

  bool operator==(const MmapOptions&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ADDRESSABLE_OPTIONS_H_
