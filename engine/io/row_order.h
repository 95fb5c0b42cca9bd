#ifndef HEARTH_ENGINE_IO_ROW_ORDER_H_
#define HEARTH_ENGINE_IO_ROW_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::io {

/// A row, and where it stood in the list of rows asked for.
struct RowAt {
  int64_t row = 0;
  size_t position = 0;
};

/// Sorts by row, keeping the order of equal ones. Rows are not negative.
/// `scratch` is memory that the caller keeps. Linear: a radix sort over the
/// bits that differ from row to row.
void SortByRow(std::vector<RowAt>& rows, std::vector<RowAt>& scratch);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROW_ORDER_H_
