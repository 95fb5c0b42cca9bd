#ifndef HEARTH_ENGINE_INGEST_FORMATS_LAYOUT_H_
#define HEARTH_ENGINE_INGEST_FORMATS_LAYOUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/layout_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// The ways in which people lay out graphs on disk. A layout knows which files
/// there are and what they mean; it checks no values and writes no dataset.
/// Each has a header of its own here, with Recognize... and Open....

namespace hearth::ingest {

enum class Layout {
  kDiskGnn,    // Files that DiskGNN reads.
  kEdgeList,   // A text file of edges.
  kGinex,      // Files that Ginex and GNNDrive read.
  kGraphBolt,  // A GraphBolt OnDiskDataset, raw or preprocessed.
  kIgb,        // IGB or IGBH: processed/.
  kMag240m,    // OGB-LSC's MAG240M.
  kNumpy,      // A plain folder of .npy arrays.
  kOgb,        // OGB's node property prediction.
};

/// "numpy": as in `--format` and in messages.
absl::string_view Name(Layout layout);

/// What a source is taken for, and why.
struct RecognizedLayout {
  Layout layout;
  /// "it has node_feat.npy and edge_index.npy".
  std::string reason;
};

/// The layout of the folder or file `source`. INVALID_ARGUMENT if it looks like
/// none, saying what would be looked for, or like several.
absl::StatusOr<RecognizedLayout> RecognizeLayout(io::FileSystem& files,
                                                 const std::string& source);

/// Opens `source`, which is laid out as `layout`. INVALID_ARGUMENT, or
/// DATA_LOSS for truncated files, naming the file.
absl::StatusOr<SourceGraph> OpenLayout(ImportContext& context, Layout layout,
                                       const std::string& source,
                                       const LayoutOptions& options = {});

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_LAYOUT_H_
