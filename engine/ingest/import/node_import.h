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

/// Import of the split and of the ids that a source gives its nodes.

namespace hearth::ingest {

/// A set of nodes, one bit per node.
using NodeSet = std::vector<bool>;

/// INVALID_ARGUMENT unless `part` is an integer array of shape (K,), K <=
/// num_nodes, or empty; or, for a mask, an array of integers or bools of shape
/// (num_nodes,) or (num_nodes, 1).
absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes,
                              bool is_mask = false);

/// A part of a split that was read earlier.
struct SplitPart {
  /// Name of its file, such as "train_idx.npy".
  std::string name;
  NodeSet nodes;
  int64_t num_nodes = 0;
  bool was_sorted = true;
};

/// Reads a part of a split: ids, each in range, once, and in none of the
/// `others`; or a mask of 0 and 1. INVALID_ARGUMENT naming the first wrong
/// position, or saying that the ids look like a mask.
absl::StatusOr<SplitPart> ReadSplitPart(ImportContext& context,
                                        ArrayReader& part, bool is_mask,
                                        int64_t num_nodes,
                                        const std::vector<SplitPart>& others);

/// Writes the part's nodes as ascending int64 to the array `what`, such as
/// "train".
absl::StatusOr<store::FinishedArray> WriteSplitPart(
    ImportContext& context, const SplitPart& part,
    const store::ArrayPlace& place, absl::string_view what);

/// INVALID_ARGUMENT unless `ids` is an int64 array of shape (num_nodes,).
absl::Status CheckIdHeader(const ArrayReader& ids, int64_t num_nodes);

/// INVALID_ARGUMENT unless `text` is a uint8 array of one dimension.
absl::Status CheckIdTextHeader(const ArrayReader& text);

/// Copies ids, of any value, to the array "ids". REQUIRES: CheckIdHeader.
absl::StatusOr<store::FinishedArray> CopyIds(ImportContext& context,
                                             ArrayReader& ids,
                                             const store::ArrayPlace& place);

/// Copies ids that line feeds separate to the array "id_text". INVALID_ARGUMENT
/// if there are not exactly `num_nodes`, or if one is empty. REQUIRES:
/// CheckIdTextHeader.
absl::StatusOr<store::FinishedArray> CopyIdText(ImportContext& context,
                                                ArrayReader& text,
                                                int64_t num_nodes,
                                                const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_NODE_IMPORT_H_
