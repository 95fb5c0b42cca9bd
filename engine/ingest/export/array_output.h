#ifndef HEARTH_ENGINE_INGEST_EXPORT_ARRAY_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_ARRAY_OUTPUT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/export/byte_sink.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {

/// Copies of a source's arrays in the element types that formats ask for, block
/// by block. All tell the context of their bytes: CANCELLED.

/// Calls `visit` with all features as float32, some rows at a time, and with
/// the position of the first of them, row-major. A float64 beyond float32's
/// range becomes infinite.
absl::Status ForEachFeatureBlock(
    ImportContext& context, ArrayReader& features,
    absl::FunctionRef<absl::Status(int64_t, absl::Span<const float>)> visit);

/// Rows of features, row-major. `wanted` is float32, float16, or what they
/// are. To float16 they are rounded; INVALID_ARGUMENT for one beyond its range.
absl::Status WriteFeatures(ImportContext& context, ArrayReader& features,
                           store::DType wanted, ByteSink& sink);

/// Integers; of int32 or int64. INVALID_ARGUMENT for one that does not fit.
absl::Status WriteIntegers(ImportContext& context, ArrayReader& integers,
                           store::DType wanted, ByteSink& sink);

/// The labels of nodes `first` .., -1 where one has none. INVALID_ARGUMENT for
/// what is no label.
absl::Status ReadLabels(ArrayReader& labels, int64_t first,
                        absl::Span<int64_t> out);

/// Calls `visit` with all labels, block after block, as ReadLabels gives
/// them.
absl::Status ForEachLabelBlock(
    ImportContext& context, ArrayReader& labels,
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> visit);

/// Labels as int64, -1 where a node has none, or as float32 with NaN.
absl::Status WriteLabels(ImportContext& context, ArrayReader& labels,
                         store::DType wanted, ByteSink& sink);

/// The largest label and 1.
absl::StatusOr<int64_t> CountClasses(ImportContext& context,
                                     ArrayReader& labels);

/// Calls `visit` with all edges, block after block.
absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit);

/// All sources as int64, then all destinations: the elements of a (2, E) array.
/// Two passes.
absl::Status WriteEdgeRows(ImportContext& context, EdgeSource& edges,
                           ByteSink& sink);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_ARRAY_OUTPUT_H_
