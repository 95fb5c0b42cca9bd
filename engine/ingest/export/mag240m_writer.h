#ifndef HEARTH_ENGINE_INGEST_EXPORT_MAG240M_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_MAG240M_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a folder as MAG240M's: meta.pt; split_dict.pt (int64 tensors); and in
/// processed/ the papers' features, rounded to float16, and labels (float32,
/// NaN: none), and edge_index.npy (int64, (2, E)) of each relation. A graph of
/// papers, authors and institutions with MAG240M's names is written as that. In
/// a graph of one type the nodes are papers and the edges citations: there is
/// then one author and one institution, since nobody reads it without, and they
/// have no edges. INVALID_ARGUMENT for other types, without features, labels or
/// split of papers, and for features beyond float16's range; otherwise errors
/// as OutputFolder and the source.
absl::Status WriteMag240m(ImportContext& context, SourceGraph& graph,
                          const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_MAG240M_WRITER_H_
