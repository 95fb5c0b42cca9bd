#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_TRANSFORM_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_TRANSFORM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_transforms.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {

struct TransformedCsc {
  CscArrays arrays;
  int64_t duplicates_removed = 0;
  int64_t self_loops_removed = 0;
  int64_t self_loops_added = 0;
};

/// Removes duplicates and removes or adds self loops, one node's neighbors
/// after another. `indptr` and `indices` are a topology of one node type that
/// the import wrote itself. Neighbors keep their order unless duplicates are
/// removed; a self loop that is added comes last, or in its place among
/// ascending ones. The result does not depend on the memory limit: neighbors
/// that do not fit an eighth of it become a set of one bit a node,
/// RESOURCE_EXHAUSTED with the numbers if that does not fit a quarter.
absl::StatusOr<TransformedCsc> TransformCsc(ImportContext& context,
                                            ArrayReader& indptr,
                                            ArrayReader& indices,
                                            const EdgeTransforms& transforms,
                                            const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_TRANSFORM_H_
