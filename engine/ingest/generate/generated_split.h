#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_SPLIT_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_SPLIT_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/ingest/generate/computed_file.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// The nodes of train, valid and test: disjoint random sets of exactly their
/// shares, rounded down, as ascending int64. A node's part follows from where a
/// permutation takes it, so that no set is held: one pass over the nodes counts
/// the members in each 65,536 of them, and a read scans from there. REQUIRES:
/// options.Validate(). CANCELLED.
absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> NewGeneratedSplit(
    ImportContext& context, const GenerateOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_SPLIT_H_
