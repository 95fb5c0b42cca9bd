#ifndef HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

/// Options of a source beyond its format.

namespace hearth::ingest {

struct EdgeListOptions {
  /// Numbers the nodes 0, 1, 2, ... in the order of their ids, and keeps the
  /// map in the dataset. Without it, ids are the numbers of the nodes.
  bool relabel = false;
};

struct IgbOptions {
  /// The number of classes of the labels: 19 or 2983.
  int num_classes = 19;
  /// The split is 60/20/20 of the labeled nodes: in their order or, with a
  /// seed, at random.
  std::optional<uint64_t> split_seed;
};

struct OgbOptions {
  /// A folder in split/. Default: the only one there is.
  std::string split;
};

/// One member for each format that has options; the others are ignored.
struct FormatOptions {
  EdgeListOptions edge_list;
  IgbOptions igb;
  OgbOptions ogb;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
