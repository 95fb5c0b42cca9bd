#ifndef HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_
#define HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_

#include "absl/status/statusor.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"

namespace hearth::ingest {

/// A dataset's own arrays as a source, of all its types, to be written in
/// another format. Every block that is read is compared with its checksum:
/// DATA_LOSS, here or from the arrays, where it does not match.
/// FAILED_PRECONDITION if a file has changed since the import.
absl::StatusOr<SourceGraph> OpenDatasetAsSource(io::FileSystem& files,
                                                const store::Dataset& dataset);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_DATASET_SOURCE_H_
