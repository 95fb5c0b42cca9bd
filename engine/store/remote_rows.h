#ifndef HEARTH_ENGINE_STORE_REMOTE_ROWS_H_
#define HEARTH_ENGINE_STORE_REMOTE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"

/// Feature rows of a dataset that are on other machines, and the file in which
/// a shard's rows and theirs are one.

namespace hearth::store {

/// A set of rows, a bit each. Thread-compatible.
class RowSet {
 public:
  /// No rows of `num_rows`.
  explicit RowSet(int64_t num_rows)
      : words_(static_cast<size_t>(num_rows + 63) / 64) {}

  void Add(int64_t row) {
    words_[static_cast<size_t>(row) / 64] |= uint64_t{1} << (row % 64);
  }
  void Add(absl::Span<const NodeId> rows) {
    for (const NodeId row : rows) Add(row);
  }
  bool Has(int64_t row) const {
    return (words_[static_cast<size_t>(row) / 64] >> (row % 64) & 1) != 0;
  }

 private:
  std::vector<uint64_t> words_;
};

/// Consecutive rows.
struct RowRun {
  int64_t first = 0;
  int64_t count = 0;
};

/// Where rows come from that are not here. Thread-safe.
class RemoteRows {
 public:
  /// Rows of one node type. Single-owner.
  class Reader {
   public:
    virtual ~Reader() = default;

    /// Fills `out` with the rows of `runs`, which ascend and are not here, one
    /// after the other, as they are stored. They were checked where they were
    /// read, and on their way.
    virtual absl::Status Read(absl::Span<const RowRun> runs,
                              absl::Span<std::byte> out) = 0;
  };

  virtual ~RemoteRows() = default;

  /// Opens the rows of a node type of the dataset of `manifest`, until `stop`
  /// is requested: CANCELLED. FAILED_PRECONDITION, naming the rows, if some are
  /// neither here nor elsewhere; of the cause WaitCause::kPeer if a machine
  /// that may have them cannot be reached.
  virtual absl::StatusOr<std::unique_ptr<Reader>> Open(
      const Manifest& manifest, size_t node_type,
      const std::stop_token& stop) = 0;
};

/// The features of a node type as the one file of which `array` is a shard:
/// what is here comes from `here`, which OpenVerifiedFile has opened; of the
/// other rows, those in `wanted` come from `elsewhere`, and all others read as
/// NaN. Row 0 is number `first_row` of `wanted`, which outlives the file.
std::unique_ptr<io::ReadableFile> NewShardedRows(
    const ArrayFile& array, std::unique_ptr<io::ReadableFile> here,
    std::unique_ptr<RemoteRows::Reader> elsewhere, const RowSet& wanted,
    int64_t first_row);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_REMOTE_ROWS_H_
