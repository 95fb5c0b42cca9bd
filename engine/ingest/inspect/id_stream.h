#ifndef HEARTH_ENGINE_INGEST_INSPECT_ID_STREAM_H_
#define HEARTH_ENGINE_INGEST_INSPECT_ID_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Reads the ids of a stored split, one by one. Single-owner.
class IdStream {
 public:
  /// At the first id of the .npy file at `path`.
  static absl::StatusOr<IdStream> Open(io::FileSystem& files,
                                       const std::string& path);

  bool AtEnd() const { return at_ == block_.size(); }
  /// REQUIRES: !AtEnd().
  int64_t id() const { return block_[at_]; }
  absl::Status Next();

 private:
  explicit IdStream(std::unique_ptr<ArrayReader> ids) : ids_(std::move(ids)) {}

  absl::Status ReadBlock();

  std::unique_ptr<ArrayReader> ids_;
  int64_t num_read_ = 0;
  std::vector<int64_t> block_;
  size_t at_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_ID_STREAM_H_
