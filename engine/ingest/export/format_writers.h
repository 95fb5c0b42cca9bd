#ifndef HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

/// Writers of the formats numpy, edge-list, ginex, diskgnn and graphbolt.

namespace hearth::ingest {

/// Writes a plain numpy folder.
/// - node_feat.npy: features in their own type; bfloat16, which numpy lacks, as
///   uint16.
/// - node_label.npy: classes as int64 (-1: none); multi-label and targets as
///   float32 (N, C), a row of NaN: none; in multi-label rows NaN: unknown.
/// - {train,valid,test}_idx.npy: int64; valid and test only if they have nodes.
/// - edge_index.npy (int64, (2, E)), or indptr.npy and indices.npy for edges in
///   CSC.
/// INVALID_ARGUMENT for a graph of several types or without one of the arrays;
/// otherwise errors of OutputFolder and the source.
absl::Status WriteNumpyFolder(ImportContext& context, SourceGraph& graph,
                              const std::string& destination);

/// Writes a folder with edges.txt: a comment with the numbers of nodes and
/// edges, as in SNAP's files, then a line "source<tab>destination" for each
/// edge. Features, labels and split are not written. INVALID_ARGUMENT for a
/// graph of several types; otherwise errors of OutputFolder and the source.
absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           const std::string& destination);

/// Ginex and DiskGNN: folders of raw arrays with the topology in CSC. Both need
/// a graph of one type with features, labels and split: INVALID_ARGUMENT
/// otherwise. Edges in a list are first sorted in the context's scratch folder;
/// after that `graph` has them in CSC. Other errors of OutputFolder, BuildCsc
/// and the source.

/// Writes a folder for Ginex and GNNDrive: indptr.dat and indices.dat (int64),
/// features.dat (float32), labels.dat (float32, (N, 1), NaN: none), conf.json,
/// split_idx.pth.
absl::Status WriteGinex(ImportContext& context, SourceGraph& graph,
                        const std::string& destination);

/// Writes a folder for DiskGNN: features.bin (in the features' own type),
/// conf.json, graph.pth (GraphBolt's FusedCSCSamplingGraph), labels.pth
/// (float32 (N), NaN: none), split_idx.pth.
absl::Status WriteDiskGnn(ImportContext& context, SourceGraph& graph,
                          const std::string& destination);

/// Writes a GraphBolt OnDiskDataset, not preprocessed: metadata.yaml;
/// edges/*.npy (int64, (2, E)); data/*.npy for features "feat", or .pt for
/// bfloat16, which numpy lacks; set/*.npy with seeds and labels (int64) of each
/// part; and all labels as a feature "label", since sets have labels of their
/// own nodes only. A graph of several types becomes a heterograph; an edge type
/// whose name is not "source:relation:destination" gets the names of its ends
/// added.
///
/// INVALID_ARGUMENT for a graph without any part of a split; otherwise errors
/// of OutputFolder and the source.
absl::Status WriteGraphBolt(ImportContext& context, SourceGraph& graph,
                            const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_FORMAT_WRITERS_H_
