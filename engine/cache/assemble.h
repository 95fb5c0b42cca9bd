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

/// Rows that a worker of a team copies at a time.
inline constexpr int64_t kRowsPerPart = 4096;

/// Rows as they are stored, one after the other, such as the slots of an arena.
struct StoredRows {
  const std::byte* data = nullptr;
  store::DType dtype = store::DType::kFloat32;
  int64_t dim = 0;
};

/// Gathers rows: out[i] = row indices[i], widened to float32. `out` is
/// [indices.size(), rows.dim], row-major. Indices are not checked; the element
/// type must be a floating-point type. Thread-safe.
void AssembleRows(const StoredRows& rows, absl::Span<const int64_t> indices,
                  float* out);

/// Widens one stored row to float32. `out` is [format.dim].
void WidenRow(const store::RowFormat& format, const std::byte* row, float* out);

/// Scatters rows to their positions in a batch: row positions[i] of `out` = row
/// slots[i], widened to float32. `out` is [.., rows.dim]; its other rows stay.
/// Nothing is checked. REQUIRES: as many slots as positions. Thread-safe.
void ScatterRows(const StoredRows& rows, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out);

/// ScatterRows of row i instead of row slots[i].
void ScatterRows(const StoredRows& rows, absl::Span<const int32_t> positions,
                 float* out);

/// ScatterRows by a team, kRowsPerPart rows at a time.
void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions, float* out);
void ScatterRows(ThreadTeam& team, const StoredRows& rows,
                 absl::Span<const int32_t> positions, float* out);

/// Gathers the feature rows of `nodes`: out[i] = row nodes[i], widened to
/// float32 and padded with zeros to features.dim() columns. `out` is
/// [nodes.size(), features.dim()], row-major. The matrices must be of
/// floating-point types, as import ensures. Thread-safe.
void AssembleRows(const store::LoadedFeatures& features,
                  absl::Span<const store::NodeId> nodes, float* out);

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_ASSEMBLE_H_
