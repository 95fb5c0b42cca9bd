#ifndef HEARTH_ENGINE_STORE_IMPORT_LABEL_IMPORT_H_
#define HEARTH_ENGINE_STORE_IMPORT_LABEL_IMPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/array_reader.h"
#include "engine/store/array_writer.h"
#include "engine/store/import/import_context.h"

namespace hearth::store {

/// A set of nodes, one bit each.
using NodeSet = std::vector<bool>;

/// More are taken for a mistake.
inline constexpr int64_t kMaxClasses = 10'000'000;

/// That `labels` is an integer or float array of shape (N,) or (N, 1).
absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes);

struct ImportedLabels {
  FinishedArray array;
  int64_t num_classes = 0;
  NodeSet labeled;
};

/// Writes labels as int32: -1, and NaN, mean unlabeled. INVALID_ARGUMENT for
/// anything else that is not a whole number in 0 .. kMaxClasses - 1, and if
/// there is no label at all. REQUIRES: CheckLabelHeader.
absl::StatusOr<ImportedLabels> ImportLabels(ImportContext& context,
                                            ArrayReader& labels,
                                            const ArrayPlace& place);

/// That `part` is an integer array of shape (K,), 0 < K <= num_nodes.
absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes);

/// One part of a split, read before.
struct SplitPart {
  /// "train_idx.npy".
  std::string name;
  NodeSet nodes;
  bool was_sorted = true;
};

/// Reads the ids of a part: in range, each once, and in none of the `others`.
/// A node without a label may be there, as it is in datasets of others: it is
/// kept. INVALID_ARGUMENT naming the first offending position.
absl::StatusOr<SplitPart> ReadSplitPart(ImportContext& context,
                                        ArrayReader& part, int64_t num_nodes,
                                        const std::vector<SplitPart>& others);

/// Writes the part's nodes as ascending int64 to `what`, such as "train".
absl::StatusOr<FinishedArray> WriteSplitPart(ImportContext& context,
                                             const SplitPart& part,
                                             const ArrayPlace& place,
                                             absl::string_view what);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_IMPORT_LABEL_IMPORT_H_
