#ifndef HEARTH_ENGINE_INGEST_IMPORT_NODE_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_NODE_IMPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {

/// A set of nodes, one bit each.
using NodeSet = std::vector<bool>;

/// OK if `part` is an integer array of shape (K,), K <= num_nodes, or empty; of
/// a mask, one of integers or bools of shape (num_nodes,) or (num_nodes, 1).
absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes,
                              bool is_mask = false);

/// One part of a split, read before.
struct SplitPart {
  /// "train_idx.npy".
  std::string name;
  NodeSet nodes;
  int64_t num_nodes = 0;
  bool was_sorted = true;
};

/// Reads the ids of a part: in range, each once, and in none of the `others`;
/// with or without labels; or its mask, of 0 and 1. INVALID_ARGUMENT naming the
/// first offending position, or saying that ids are a mask.
absl::StatusOr<SplitPart> ReadSplitPart(ImportContext& context,
                                        ArrayReader& part, bool is_mask,
                                        int64_t num_nodes,
                                        const std::vector<SplitPart>& others);

/// Writes the part's nodes as ascending int64 to `what`, such as "train".
absl::StatusOr<store::FinishedArray> WriteSplitPart(
    ImportContext& context, const SplitPart& part,
    const store::ArrayPlace& place, absl::string_view what);

/// Import of the ids that the source gives its nodes.

/// OK if `ids` is an int64 array of shape (num_nodes,).
absl::Status CheckIdHeader(const ArrayReader& ids, int64_t num_nodes);

/// OK if `text` is a uint8 array of one dimension.
absl::Status CheckIdTextHeader(const ArrayReader& text);

/// Copies the ids to "ids", whatever they are. REQUIRES: CheckIdHeader.
absl::StatusOr<store::FinishedArray> CopyIds(ImportContext& context,
                                             ArrayReader& ids,
                                             const store::ArrayPlace& place);

/// Copies ids with a line feed between each and the next to "id_text".
/// INVALID_ARGUMENT if they are not `num_nodes` or one is empty.
/// REQUIRES: CheckIdTextHeader.
absl::StatusOr<store::FinishedArray> CopyIdText(ImportContext& context,
                                                ArrayReader& text,
                                                int64_t num_nodes,
                                                const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_NODE_IMPORT_H_
