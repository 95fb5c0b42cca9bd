#ifndef HEARTH_ENGINE_INGEST_FORMATS_NUMPY_H_
#define HEARTH_ENGINE_INGEST_FORMATS_NUMPY_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A plain numpy folder: edge_index.npy of shape (2, E) or (E, 2) with sources
/// first, or indptr.npy and indices.npy; node_feat.npy; node_label.npy;
/// train_idx.npy, or train_mask.npy of 0 and 1 or bool; optionally likewise for
/// "valid" or "val", and for "test". C or Fortran order. The graph's warnings
/// name other arrays in the folder.

/// Reason why `source` looks like such a folder; empty if it does not.
absl::StatusOr<std::string> RecognizeNumpyFolder(io::FileSystem& files,
                                                 const std::string& source);

/// Opens such a folder. INVALID_ARGUMENT, or DATA_LOSS for a truncated file,
/// naming the file.
absl::StatusOr<SourceGraph> OpenNumpyFolder(ImportContext& context,
                                            const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NUMPY_H_
