#ifndef HEARTH_ENGINE_INGEST_FORMATS_MAG240M_H_
#define HEARTH_ENGINE_INGEST_FORMATS_MAG240M_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

#endif  // HEARTH_ENGINE_INGEST_FORMATS_MAG240M_H_
