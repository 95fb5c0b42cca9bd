#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_WALK_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_WALK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/ingest/parse/pickle_value.h"

namespace hearth::ingest {

/// Checks that whoever walks the values below `root` comes to an end soon: no
/// cycles, at most `max_depth` containers within one another (both
/// INVALID_ARGUMENT), and at most `max_walk` values where one that is used
/// twice counts twice (RESOURCE_EXHAUSTED). And that the keys of each
/// dictionary are scalars, no two the same (INVALID_ARGUMENT).
absl::Status CheckWalk(const PickleValue& root, int max_depth,
                       int64_t max_walk);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_WALK_H_
