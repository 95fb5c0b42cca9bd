#ifndef HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a plain numpy folder: node_feat.npy in the features' own type
/// (bfloat16, which numpy lacks, as uint16), node_label.npy (int64, -1:
/// none; of multi-label and targets float32 (N, C), a row of NaN: none, of
/// multi-label NaN: unknown), {train,valid,test}_idx.npy (int64), valid and
/// test where there are such nodes, and edge_index.npy (int64, (2, E)), or
/// indptr.npy and indices.npy if the edges are so. INVALID_ARGUMENT for a graph
/// of several types or without one of the arrays; otherwise errors as
/// OutputFolder and the source.
absl::Status WriteNumpyFolder(ImportContext& context, SourceGraph& graph,
                              const std::string& destination);

/// Writes a folder with edges.txt: a comment that tells the numbers of nodes
/// and edges, as SNAP's files have it, then a line "source<tab>destination" for
/// each edge. Features, labels and split have no place in it. INVALID_ARGUMENT
/// for a graph of several types; otherwise errors as OutputFolder and the
/// source.
absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           const std::string& destination);

/// Folders of raw arrays with the topology in CSC. Both need a graph of one
/// type with features, labels and split: INVALID_ARGUMENT otherwise. Edges that
/// are a list are sorted first, in the context's scratch folder; afterwards
/// `graph` has them in CSC. Other errors as OutputFolder, BuildCsc and the
/// source.

/// For Ginex and GNNDrive: indptr.dat and indices.dat (int64), features.dat
/// (float32), labels.dat (float32, (N, 1), NaN: none), conf.json,
/// split_idx.pth.
absl::Status WriteGinex(ImportContext& context, SourceGraph& graph,
                        const std::string& destination);

/// For DiskGNN: features.bin (in the features' own type), conf.json, graph.pth
/// (GraphBolt's FusedCSCSamplingGraph), labels.pth (float32 (N), NaN: none),
/// split_idx.pth.
absl::Status WriteDiskGnn(ImportContext& context, SourceGraph& graph,
                          const std::string& destination);

/// Writes a GraphBolt OnDiskDataset, not preprocessed: metadata.yaml;
/// edges/*.npy (int64, (2, E)); data/*.npy for features "feat", or .pt for
/// bfloat16, which numpy lacks; set/*.npy with seeds and labels (int64) of each
/// part; and all labels as a feature "label", since
/// the sets have those of their nodes alone. Several types are written as
/// heterographs are: an edge type that is not named
/// "source:relation:destination" already gets its ends' names.  Errors as
/// OutputFolder and the source; INVALID_ARGUMENT for a graph without any part
/// of a split.
absl::Status WriteGraphBolt(ImportContext& context, SourceGraph& graph,
                            const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_
