#ifndef HEARTH_ENGINE_STORE_LAYOUT_IMPORT_DATASET_H_
#define HEARTH_ENGINE_STORE_LAYOUT_IMPORT_DATASET_H_

#include <optional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/import/import_graph.h"
#include "engine/store/layout/layout.h"

namespace hearth::store {

/// Imports the graph at options.source, laid out as `layout`, or as it looks
/// like; then the manifest's first transform says what it was taken for. See
/// ImportGraph and OpenLayout for errors.
absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           std::optional<Layout> layout,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_LAYOUT_IMPORT_DATASET_H_
