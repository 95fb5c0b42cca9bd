#ifndef HEARTH_ENGINE_STORE_JOINED_ROWS_H_
#define HEARTH_ENGINE_STORE_JOINED_ROWS_H_

#include <memory>
#include <vector>

#include "engine/io/coalesce.h"
#include "engine/io/file_system.h"

namespace hearth::store {

/// Rows in a file of their own. Movable.
struct RowsOfFile {
  std::unique_ptr<io::ReadableFile> file;
  /// Where they lie in the file, and among the rows of all files.
  io::RowTable table;
};

/// The rows of several files as one file, in which they lie one after the other
/// from byte 0 on, `row_bytes` each, as RowTable::convert makes them. REQUIRES:
/// `parts` are in the order of their rows, which begin at 0 without gaps, and
/// there is one at least.
std::unique_ptr<io::ReadableFile> NewJoinedRows(std::vector<RowsOfFile> parts,
                                                uint32_t row_bytes);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_JOINED_ROWS_H_
