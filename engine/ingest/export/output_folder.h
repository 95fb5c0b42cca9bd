#ifndef HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/export/byte_sink.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A folder of files being written: it appears whole or not at all. Written to
/// `destination`.tmp; Publish syncs its folders, renames it and syncs the
/// parent. Without Publish it is removed when destroyed. Single-owner.
class OutputFolder {
 public:
  /// ALREADY_EXISTS if something is at `destination`, whose parent must exist.
  /// Removes a leftover `destination`.tmp.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Create(
      io::FileSystem& files, const std::string& destination);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// A new file, of that path within the folder; folders in it are made.
  absl::StatusOr<std::unique_ptr<io::WritableFile>> NewFile(
      const std::string& path);

  /// The same, to be appended to.
  absl::StatusOr<std::unique_ptr<ByteSink>> NewSink(const std::string& path);

  /// A whole file.
  absl::Status WriteText(const std::string& path, absl::string_view text);

  /// REQUIRES: all files are finished. Once.
  absl::Status Publish();

 private:
  OutputFolder(io::FileSystem& files, const std::string& destination);

  io::FileSystem& files_;
  const std::string destination_;
  const std::string folder_;
  /// Within the folder; sorted, so that each comes behind its parent.
  std::set<std::string> made_;
  bool published_ = false;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_OUTPUT_FOLDER_H_
