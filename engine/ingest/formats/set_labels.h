#ifndef HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {

/// Labels of some nodes.
struct SetLabels {
  /// [count] ids, and [count] or [count, columns] labels.
  std::unique_ptr<ArrayReader> seeds;
  std::unique_ptr<ArrayReader> labels;
};

/// The labels of all nodes, in a scratch file called `name` in messages: of
/// classes int32 [num_nodes], -1 where no set has one; of other kinds float32
/// [num_nodes, columns], a row of NaN where no set has any. `wanted` is their
/// kind; nullopt: told from the shape of the first. Takes a quarter of the
/// memory limit; where the nodes do not fit in that, the sets are read once for
/// each part of them. INVALID_ARGUMENT naming the position for ids out of
/// range, for what is no class (see label_import.h; of the other kinds
/// ImportLabels checks the values), for a node with different labels, and for
/// sets of different numbers of columns. REQUIRES: sets is not empty.
absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    std::optional<store::LabelKind> wanted, const std::vector<SetLabels>& sets);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SET_LABELS_H_
