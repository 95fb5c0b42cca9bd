#ifndef HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/array_header.h"
#include "engine/store/array_writer.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {

/// More classes, labels or targets are taken for a mistake.
inline constexpr int64_t kMaxClasses = 10'000'000;
inline constexpr int64_t kMaxLabelColumns = 1 << 20;

/// The kind of labels in an array: `wanted`, or told from its shape: classes in
/// one column, multi-label in several.
store::LabelKind KindOfLabels(const store::ArrayHeader& header,
                              std::optional<store::LabelKind> wanted);

/// OK if `labels` has shape (N,) or (N, 1) for classes, or (N, C) as well for
/// others.
absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes,
                              std::optional<store::LabelKind> wanted);

/// Bytes of the array that ImportLabels writes at most: of several labels,
/// where they may be partial. REQUIRES: CheckLabelHeader.
uint64_t ImportedLabelBytes(const store::ArrayHeader& header,
                            std::optional<store::LabelKind> wanted);

struct ImportedLabels {
  store::FinishedArray array;
  store::LabelKind kind = store::LabelKind::kClasses;
  int64_t width = 0;
  /// Labels of labeled nodes that are not known.
  int64_t num_unknown = 0;
};

/// Writes labels in the format of labels.h. INVALID_ARGUMENT, naming the first
/// offending element, for what is no label, and if there is none at all:
///
/// * kClasses are whole numbers in 0 .. kMaxClasses - 1; -1 and NaN mean
///   unlabeled;
/// * of kMultiLabel every element is 0 or 1, or NaN for a label that is not
///   known; a row of NaN is unlabeled;
/// * kTargets are finite as float32; a row of NaN is unlabeled.
///
/// REQUIRES: CheckLabelHeader.
absl::StatusOr<ImportedLabels> ImportLabels(
    ImportContext& context, ArrayReader& labels,
    std::optional<store::LabelKind> wanted, const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_
