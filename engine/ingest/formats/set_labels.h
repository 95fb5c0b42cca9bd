#ifndef HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Labels of some nodes.
struct SetLabels {
  /// [count] ids, and [count] or [count, 1] labels.
  std::unique_ptr<ArrayReader> seeds;
  std::unique_ptr<ArrayReader> labels;
};

/// [num_nodes] int32 labels, -1 where no set has one, in a scratch file called
/// `name` in messages. Takes a quarter of the memory limit; where the nodes do
/// not fit in that, the sets are read once for each part of them.
/// INVALID_ARGUMENT naming the position for ids out of range, for what is no
/// label (see label_import.h), and for a node with two different ones.
absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    const std::vector<SetLabels>& sets);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_
