#ifndef HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_
#define HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_

#include "absl/status/statusor.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"

namespace hearth::ingest {

/// Opens a dataset's own arrays, of all its types, as a source, to be written
/// in another format. Every block that is read is compared with its checksum:
/// DATA_LOSS, here or from the arrays, for a mismatch. FAILED_PRECONDITION if a
/// file has changed since the import.
absl::StatusOr<SourceGraph> OpenDatasetAsSource(io::FileSystem& files,
                                                const store::Dataset& dataset);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_
