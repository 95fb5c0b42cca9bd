#ifndef HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_

#include <optional>
#include <stop_token>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/layout.h"
#include "engine/ingest/formats/layout_options.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// How the source is laid out, and what there is to say about that.
struct LayoutChoice {
  // A layout alone is a choice.
  LayoutChoice(  // NOLINT(google-explicit-constructor)
      std::optional<Layout> chosen, LayoutOptions with = {})
      : layout(chosen), options(std::move(with)) {}
  LayoutChoice(Layout chosen,  // NOLINT(google-explicit-constructor)
               LayoutOptions with = {})
      : layout(chosen), options(std::move(with)) {}

  /// As the source looks like, if it is not told.
  std::optional<Layout> layout;
  LayoutOptions options;
};

/// Imports the graph at options.source, laid out as chosen. If the layout was
/// recognized, the manifest's first transform says what it was taken for. See
/// ImportGraph and OpenLayout for errors.
absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const LayoutChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_
