#ifndef HEARTH_ENGINE_INGEST_EXPORT_LABEL_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_LABEL_OUTPUT_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {

/// Calls `visit` with all rows of labels that are no classes, block after
/// block, as floats: 0 or 1, or targets; a row of NaN is unlabeled.
/// INVALID_ARGUMENT naming the first element that is no such label.
/// REQUIRES: kind != kClasses.
absl::Status ForEachLabelRowBlock(
    ImportContext& context, ArrayReader& labels, store::LabelKind kind,
    absl::FunctionRef<absl::Status(absl::Span<const float> rows)> visit);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_LABEL_OUTPUT_H_
