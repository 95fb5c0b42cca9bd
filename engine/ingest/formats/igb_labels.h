#ifndef HEARTH_ENGINE_INGEST_FORMATS_IGB_LABELS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IGB_LABELS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Opens the labels of IGB's papers in `folder`, and makes their split: 60, 20
/// and 20 of a hundred of those up to the last one with a label, in their order
/// or, with a seed, at random. The file may have labels for the first papers
/// alone, or zeros behind them, more in a row than class 0 would have by
/// chance, of which `graph`.warnings tell. What was chosen goes into
/// `graph`.transforms. REQUIRES: `papers`, of
/// `graph`, has its number of nodes.
absl::Status OpenIgbLabels(io::FileSystem& files, const std::string& folder,
                           const IgbOptions& options, SourceGraph& graph,
                           SourceNodes& papers);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IGB_LABELS_H_
