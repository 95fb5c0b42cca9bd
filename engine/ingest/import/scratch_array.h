#ifndef HEARTH_ENGINE_INGEST_IMPORT_SCRATCH_ARRAY_H_
#define HEARTH_ENGINE_INGEST_IMPORT_SCRATCH_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/array_header.h"

namespace hearth::ingest {

/// An array made of what is no array, such as text: written to the import's
/// scratch folder from the first element to the last, then read as any other.
/// Single-owner.
class ScratchArray {
 public:
  /// `source` is the file that the elements come from: errors about them name
  /// it, and the split's parts are called after it.
  static absl::StatusOr<std::unique_ptr<ScratchArray>> Create(
      ImportContext& context, store::ElementType type, std::string source);

  /// The next elements, little-endian.
  absl::Status Append(absl::Span<const std::byte> elements);

  /// The next elements, of the array's type.
  template <typename T>
  absl::Status AppendValues(absl::Span<const T> values) {
    return Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }

  /// The elements, in C order. To be called once. INTERNAL if there are fewer
  /// or more than `shape` has.
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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_SCRATCH_ARRAY_H_
