#ifndef HEARTH_ENGINE_CACHE_ASSEMBLE_H_
#define HEARTH_ENGINE_CACHE_ASSEMBLE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/base/thread_team.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/topology.h"

namespace hearth::cache {

/// Rows that a thread of a team assembles at a time.
inline constexpr int64_t kRowsPerPart = 4096;

/// Rows as they are stored, one after the other: the slots of an arena, say.
struct StoredRows {
  const std::byte* data = nullptr;
  store::DType dtype = store::DType::kFloat32;
  int64_t dim = 0;
};

/// Brings rows together: out[i] = row indices[i], widened to float32. `out` is
/// [indices.size(), rows.dim], row-major. Indices are not checked; the type
/// must be a floating-point one. Thread-safe.
void AssembleRows(const StoredRows& rows, absl::Span<const int64_t> indices,
                  float* out);

/// One row as it is stored, widened to float32. `out` is [format.dim].
void WidenRow(const store::RowFormat& format, const std::byte* row, float* out);

/// Puts rows to where a batch has them: row positions[i] of `out` = row
/// slots[i], widened to float32; the other rows of `out`, which is [..,
/// rows.dim], stay. REQUIRES: as many slots as positions. Nothing is checked.
/// Thread-safe.
void ScatterRows(const StoredRows& rows, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out);

/// The same for row i instead of row slots[i].
void ScatterRows(const StoredRows& rows, absl::Span<const int32_t> positions,
                 float* out);

/// The same two by a team, kRowsPerPart at a time.
void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out);
void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int32_t> positions, float* out);

/// Brings the feature rows of `nodes` together: out[i] = row nodes[i], widened
/// to float32 and followed by zeros where it has fewer columns than others.
/// `out` is [nodes.size(), features.dim()], row-major. The matrices must be of
/// floating-point types, as import makes sure. Thread-safe.
void AssembleRows(const store::LoadedFeatures& features,
                  absl::Span<const store::NodeId> nodes, float* out);

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_ASSEMBLE_H_
