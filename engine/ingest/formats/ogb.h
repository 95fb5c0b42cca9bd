#ifndef HEARTH_ENGINE_INGEST_FORMATS_OGB_H_
#define HEARTH_ENGINE_INGEST_FORMATS_OGB_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// OGB's datasets of node property prediction, and OGB-LSC's MAG240M.
///
/// OGB: a folder such as ogbn_arxiv with raw/ and split/. raw/ has one of three
/// forms: CSV files of one node type (node features may be absent), CSV files
/// of several (with num-node-dict), or arrays in data.npz and node-label.npz,
/// which are read in place. Each CSV file is NAME.csv.gz or NAME.csv. Datasets
/// for which OGB's own list says so get the inverse of each edge, right after
/// the edge; the folder's name tells: ogbn_products and ogbn_proteins.
///
/// MAG240M: a folder such as mag240m_kddcup2021 with meta.pt (numbers of
/// papers, authors and institutions), split_dict.pt, and in processed/ the
/// papers' features, in their own type, their labels (NaN: unlabeled), and
/// edge_index.npy of shape (2, E) for each relation. The test part is
/// "test-whole" if there is one, otherwise "test"; its nodes are often
/// unlabeled.

namespace hearth::ingest {

/// Reason why `source` looks like an OGB folder; empty if it does not.
absl::StatusOr<std::string> RecognizeOgb(io::FileSystem& files,
                                         const std::string& source);

/// Opens an OGB folder. INVALID_ARGUMENT, or DATA_LOSS for truncated files,
/// naming the file and, in text, the line; RESOURCE_EXHAUSTED if the disk has
/// no space to unpack edges and text.
absl::StatusOr<SourceGraph> OpenOgb(ImportContext& context,
                                    const std::string& source,
                                    const OgbOptions& options);

/// Whether ogb, and so OpenOgb, adds the inverse of each edge to a dataset of
/// one node type in a folder of that path.
bool OgbAddsInverseEdges(absl::string_view path);

/// Reason why `source` looks like MAG240M; empty if it does not.
absl::StatusOr<std::string> RecognizeMag240m(io::FileSystem& files,
                                             const std::string& source);

/// Opens MAG240M. INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming
/// the file.
absl::StatusOr<SourceGraph> OpenMag240m(ImportContext& context,
                                        const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_H_
