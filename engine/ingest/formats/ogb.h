#ifndef HEARTH_ENGINE_INGEST_FORMATS_OGB_H_
#define HEARTH_ENGINE_INGEST_FORMATS_OGB_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A dataset of OGB's node property prediction, a folder such as ogbn_arxiv
/// with raw/ and split/. raw/ is read in its three forms: CSV files of one node
/// type (node features may be absent), CSV files of several (with
/// num-node-dict), and arrays in data.npz and node-label.npz, which are read
/// straight from there. Of CSV files, both NAME.csv.gz and NAME.csv are found.
///
/// OGB's own list of datasets says which get the inverse of each edge, right
/// after it; here the folder's name tells: ogbn_products and ogbn_proteins.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeOgb(io::FileSystem& files,
                                         const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for truncated files, naming the file and, in
/// text, the line; RESOURCE_EXHAUSTED if the disk has no room to unpack edges
/// and text.
absl::StatusOr<SourceGraph> OpenOgb(ImportContext& context,
                                    const std::string& source,
                                    const OgbOptions& options);

/// Whether ogb, and so OpenOgb, adds the inverse of each edge to a dataset of
/// one node type in a folder of that path.
bool OgbAddsInverseEdges(absl::string_view path);

/// OGB-LSC's MAG240M, a folder such as mag240m_kddcup2021: meta.pt with the
/// numbers of papers, authors and institutions; split_dict.pt; and in
/// processed/ the papers' features, in their own type, and labels (NaN:
/// unlabeled), and edge_index.npy of shape (2, E) for each relation. The test
/// part is "test", or "test-whole" where there is that; its nodes are often
/// unlabeled.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeMag240m(io::FileSystem& files,
                                             const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenMag240m(ImportContext& context,
                                        const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_H_
