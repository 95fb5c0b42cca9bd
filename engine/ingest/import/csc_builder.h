#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// The file of distributed edges, in the place's folder; gone when BuildCsc
/// returns OK.
inline constexpr char kScratchName[] = "sorting.scratch";

/// Sorts edges by destination, keeping their order within one: the topology in
/// CSC. They are read once. The result does not depend on the memory limit:
/// what exceeds it goes through a scratch file of up to num_edges *
/// ScratchEdgeBytes. RESOURCE_EXHAUSTED, with the numbers, where even that does
/// not suffice.
absl::StatusOr<CscArrays> BuildCsc(ImportContext& context, EdgeSource& edges,
                                   const EdgeEnds& ends,
                                   const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_
