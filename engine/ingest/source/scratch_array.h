#ifndef HEARTH_ENGINE_INGEST_SOURCE_SCRATCH_ARRAY_H_
#define HEARTH_ENGINE_INGEST_SOURCE_SCRATCH_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

/// Arrays and edges that can be read only once from their source (text,
/// archives), stored in scratch files so that an import can read them in
/// several passes.

namespace hearth::ingest {

/// An array made from other data, such as text: written to the import's scratch
/// folder from the first element to the last, then read like any other array.
/// Single-owner.
class ScratchArray {
 public:
  /// `source` is the path of the file that the elements come from; errors about
  /// elements name it.
  static absl::StatusOr<std::unique_ptr<ScratchArray>> Create(
      ImportContext& context, store::ElementType type, std::string source);

  /// Appends elements, little-endian.
  absl::Status Append(absl::Span<const std::byte> elements);

  /// Appends elements of the array's type.
  template <typename T>
  absl::Status AppendValues(absl::Span<const T> values) {
    return Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }

  /// The array, in C order. To be called once. INTERNAL if `shape` does not
  /// have exactly the appended number of elements.
  absl::StatusOr<std::unique_ptr<ArrayReader>> Finish(
      std::vector<int64_t> shape);

 private:
  ScratchArray(io::FileSystem& files, std::string path, store::ElementType type,
               std::string source)
      : files_(files),
        path_(std::move(path)),
        type_(type),
        source_(std::move(source)) {}

  absl::Status Flush();

  io::FileSystem& files_;
  const std::string path_;
  const store::ElementType type_;
  const std::string source_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> buffer_;
};

/// Edges that arrive one by one, from text or an archive, stored in the
/// import's scratch folder so that they can be read in several passes. An edge
/// takes 8 bytes; from the first edge with an id of 2^31 - 1 or more on, 16
/// bytes. Single-owner.
class EdgeSpool {
 public:
  static absl::StatusOr<std::unique_ptr<EdgeSpool>> Create(
      ImportContext& context);

  /// REQUIRES: both ids are 0 or more, and in the range that the import will
  /// give the nodes.
  absl::Status Add(int64_t source, int64_t destination);

  int64_t num_edges() const { return narrow_.num_edges + wide_.num_edges; }

  /// The edges, in the order of Add; reading them is DATA_LOSS if they are no
  /// longer as written. To be called once.
  absl::StatusOr<std::unique_ptr<EdgeSource>> Finish();

 private:
  EdgeSpool(io::FileSystem& files, std::string path)
      : files_(files), path_(std::move(path)) {}

  absl::Status Flush();
  absl::Status Widen();

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> buffer_;
  bool is_wide_ = false;
  ScratchExtent narrow_;
  ScratchExtent wide_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_SCRATCH_ARRAY_H_
