#ifndef HEARTH_ENGINE_INGEST_GENERATE_OPEN_GENERATED_H_
#define HEARTH_ENGINE_INGEST_GENERATE_OPEN_GENERATED_H_

#include "absl/status/statusor.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// The path of all arrays of a generated graph begins with it, in messages.
inline constexpr char kGeneratedSource[] = "generated";

/// A made-up graph as a source: its arrays are computed when they are read.
/// INVALID_ARGUMENT as Validate; RESOURCE_EXHAUSTED if the centroids of the
/// classes do not fit a quarter of the memory limit; CANCELLED.
absl::StatusOr<SourceGraph> OpenGenerated(ImportContext& context,
                                          const GenerateOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_OPEN_GENERATED_H_
