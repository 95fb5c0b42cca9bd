#ifndef HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_

#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

/// Folders and files that an export writes.

namespace hearth::ingest {

/// Takes bytes from the first to the last. Single-owner.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  virtual absl::Status Append(absl::Span<const std::byte> data) = 0;

  /// Ends the bytes and makes them durable. To be called once.
  virtual absl::Status Finish() = 0;

  absl::Status AppendText(absl::string_view text) {
    return Append(absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(text.data()), text.size()));
  }

  template <typename T>
  absl::Status AppendValues(absl::Span<const T> values) {
    return Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }
};

/// Writes to a file, in blocks of 1 MiB.
std::unique_ptr<ByteSink> NewFileSink(std::unique_ptr<io::WritableFile> file);

/// Compresses to a gzip file of one member, without name and time.
std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> compressed);

/// A folder of files being written, which appears whole or not at all: files go
/// to `destination`.tmp; Publish syncs its folders, renames it and syncs the
/// parent. The destructor removes it if it was not published. Single-owner.
class OutputFolder {
 public:
  /// ALREADY_EXISTS if something is at `destination`, whose parent must exist.
  /// Removes a leftover `destination`.tmp.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Create(
      io::FileSystem& files, const std::string& destination);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Creates a file at a path within the folder, and the folders on the way.
  absl::StatusOr<std::unique_ptr<io::WritableFile>> NewFile(
      const std::string& path);

  /// Creates a file as NewFile does, and returns a sink for its bytes.
  absl::StatusOr<std::unique_ptr<ByteSink>> NewSink(const std::string& path);

  /// Writes a whole file.
  absl::Status WriteText(const std::string& path, absl::string_view text);

  /// Makes the folder appear. To be called once. REQUIRES: all files are
  /// finished.
  absl::Status Publish();

 private:
  OutputFolder(io::FileSystem& files, const std::string& destination);

  io::FileSystem& files_;
  const std::string destination_;
  const std::string folder_;
  /// Folders that were made, as paths within the folder; in this order each
  /// comes after its parent.
  std::set<std::string> made_;
  bool published_ = false;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_
