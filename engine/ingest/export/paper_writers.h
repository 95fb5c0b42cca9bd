#ifndef HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

/// Writers of the formats of benchmark data sets: ogb, mag240m and igb.

namespace hearth::ingest {

/// Writes a dataset of OGB's node property prediction as compressed CSV files:
/// in raw/ edge, node-feat (the shortest digits that give the same float32),
/// node-label (-1: none), num-node-list and num-edge-list; in split/given/
/// train, valid and test. INVALID_ARGUMENT for a graph of several types or
/// without edges, labels or split, and for a destination whose name makes ogb
/// add inverse edges; otherwise errors of OutputFolder and the source.
absl::Status WriteOgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

/// Writes a folder like MAG240M's: meta.pt; split_dict.pt (int64 tensors); and
/// in processed/ the papers' features, rounded to float16, their labels
/// (float32, NaN: none), and edge_index.npy (int64, (2, E)) of each relation.
/// Types called as MAG240M's (papers, authors, institutions) are written as
/// such. In a graph of one type the nodes are papers and the edges citations;
/// one author and one institution without edges are added, since readers need
/// them. INVALID_ARGUMENT for other types, for papers without features, labels
/// or split, and for features beyond float16's range; otherwise errors of
/// OutputFolder and the source.
absl::Status WriteMag240m(ImportContext& context, SourceGraph& graph,
                          const std::string& destination);

/// Writes the folder of a size of IGB, with the nodes as papers: processed/
/// with paper/node_feat.npy (float32), paper/node_label_19.npy (int64, -1:
/// none), or node_label_2K.npy for more than 19 classes, and
/// paper__cites__paper/edge_index.npy (int64, (E, 2)). The split is not
/// written. INVALID_ARGUMENT for a graph of several types, without features or
/// labels, or of more than 2,983 classes; otherwise errors of OutputFolder and
/// the source.
absl::Status WriteIgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_PAPER_WRITERS_H_
