#ifndef HEARTH_ENGINE_STORE_ROW_FORMAT_H_
#define HEARTH_ENGINE_STORE_ROW_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/store/dtype.h"
#include "engine/store/manifest.h"

namespace hearth::store {

/// The format of a feature row.
struct RowFormat {
  int64_t dim = 0;
  DType dtype = DType::kFloat32;

  int64_t row_bytes() const { return dim * SizeOf(dtype); }
  bool operator==(const RowFormat&) const = default;
};

/// The format of a node type's rows in its file. REQUIRES: it has features.
RowFormat StoredFormat(const NodeTypeEntry& type);

/// The one format in which the rows of all node types are kept and passed on:
/// as wide as the widest, and float32 unless all are of one type. Rows of a
/// homogeneous graph keep their own. Types without features do not count.
RowFormat CommonFormat(const Manifest& manifest);

/// Writes a row of format `to` for one of format `from`, which need not be
/// aligned: its values, then zeros. Null if the formats are equal. REQUIRES: no
/// more columns than `to` has, and `to` is float32 or of the same type.
std::function<void(const std::byte* stored, std::byte* row)> RowConversion(
    const RowFormat& from, const RowFormat& to);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ROW_FORMAT_H_
