#ifndef HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/store/labels.h"

/// Options that a format needs to read a source.

namespace hearth::ingest {

struct EdgeListOptions {
  /// Numbers the nodes 0, 1, 2, ... in the order of their ids, and keeps the
  /// ids in the dataset. Without relabel, ids are the numbers of the nodes.
  bool relabel = false;
  /// Whether the first line names the columns; nullopt: told from the lines.
  std::optional<bool> has_header;
  /// Columns of the ids, each a number from 1 or a name in the header. If both
  /// are empty: the columns that the header gives usual names ("src", "dst"),
  /// or the first two. Both or none are set.
  std::string source_column;
  std::string destination_column;
};

struct GraphBoltOptions {
  /// Kind of the labels in the sets of a task; nullopt: classes.
  std::optional<store::LabelKind> labels;
};

struct IgbOptions {
  /// Number of classes of the labels to read: 19 or 2983.
  int num_classes = 19;
  /// Seed that draws the split; nullopt: the split follows the order of the
  /// papers. Either way it is 60/20/20 of the labeled papers.
  std::optional<uint64_t> split_seed;
};

struct OgbOptions {
  /// Folder in split/; empty: the only one there is.
  std::string split;
};

/// Options of all formats. A format reads its own member and ignores the
/// others.
struct FormatOptions {
  EdgeListOptions edge_list;
  GraphBoltOptions graphbolt;
  IgbOptions igb;
  OgbOptions ogb;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FORMAT_OPTIONS_H_
