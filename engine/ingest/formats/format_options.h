#ifndef HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/store/labels.h"

/// Options of a source beyond its format.

namespace hearth::ingest {

struct EdgeListOptions {
  /// Numbers the nodes 0, 1, 2, ... in the order of their ids, and keeps the
  /// map in the dataset. Without it, ids are the numbers of the nodes.
  bool relabel = false;
  /// Whether the first line names the columns; nullopt: told from the lines.
  std::optional<bool> has_header;
  /// The columns of the ids: their numbers, from 1, or names in the header.
  /// Both empty: those that the header calls by known names ("src", "dst"), or
  /// the first two. Both or none are set.
  std::string source_column;
  std::string destination_column;
};

struct GraphBoltOptions {
  /// The kind of the labels in the sets of a task; nullopt: classes.
  std::optional<store::LabelKind> labels;
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
  GraphBoltOptions graphbolt;
  IgbOptions igb;
  OgbOptions ogb;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
