#ifndef HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a dataset of OGB's node property prediction, compressed CSV files: in
/// raw/ edge, node-feat (the shortest digits that give the same float32),
/// node-label (-1: none), num-node-list and num-edge-list; in split/given/
/// train, valid and test. INVALID_ARGUMENT for a graph of several types or
/// without edges, labels or split, and for a destination named as one that ogb
/// adds inverse edges to; otherwise errors as OutputFolder and the source.
absl::Status WriteOgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

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

/// Writes the folder of a size of IGB, its nodes as papers: processed/ with
/// paper/node_feat.npy (float32), paper/node_label_19.npy (int64, -1: none), or
/// node_label_2K.npy for more than 19 classes, and
/// paper__cites__paper/edge_index.npy (int64, (E, 2)). A split has no place in
/// it. INVALID_ARGUMENT for a graph of several types, without features or
/// labels, or of more than 2,983 classes; otherwise errors as OutputFolder and
/// the source.
absl::Status WriteIgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_
