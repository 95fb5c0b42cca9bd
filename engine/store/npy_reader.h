#ifndef HEARTH_ENGINE_STORE_NPY_READER_H_
#define HEARTH_ENGINE_STORE_NPY_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

namespace hearth::store {

/// Reads a foreign .npy file block by block, whatever its element type.
/// Positions count elements in the order of the file. Thread-compatible.
class NpyReader {
 public:
  /// INVALID_ARGUMENT if there is no such file; else as ReadNpyHeader.
  static absl::StatusOr<std::unique_ptr<NpyReader>> Open(
      io::FileSystem& files, const std::string& path);

  const NpyHeader& header() const { return header_; }
  const std::string& path() const { return file_->path(); }
  /// The file as it was when opened.
  const io::FileInfo& info() const { return info_; }

  /// Raw bytes, from element `first` on.
  absl::Status ReadBytes(int64_t first, absl::Span<std::byte> out);

  /// Elements `first` .. as integers. REQUIRES: the type is not float.
  /// INVALID_ARGUMENT for one beyond 2^63 - 1.
  absl::Status ReadInts(int64_t first, absl::Span<int64_t> out);

  /// Elements `first` .. as doubles. REQUIRES: the type is float.
  absl::Status ReadFloats(int64_t first, absl::Span<double> out);

  /// The bytes before the first element.
  absl::StatusOr<std::vector<std::byte>> ReadHeaderBytes();

  /// FAILED_PRECONDITION if the file is no longer as it was when opened.
  absl::Status CheckUnchanged();

  /// INVALID_ARGUMENT: "`path`: [0, 5] `problem`", for the element at
  /// `position` with its index as numpy writes it.
  absl::Status ErrorAt(int64_t position, absl::string_view problem) const;

  /// INVALID_ARGUMENT: "`path`: `problem`".
  absl::Status Error(absl::string_view problem) const;

 private:
  NpyReader(std::unique_ptr<io::ReadableFile> file, NpyHeader header,
            io::FileInfo info);

  template <typename Stored, typename Wanted>
  absl::Status ReadAs(int64_t first, absl::Span<Wanted> out);

  const std::unique_ptr<io::ReadableFile> file_;
  const NpyHeader header_;
  const io::FileInfo info_;
  std::vector<std::byte> raw_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NPY_READER_H_
