#ifndef HEARTH_ENGINE_IO_SCRATCH_FILE_H_
#define HEARTH_ENGINE_IO_SCRATCH_FILE_H_

#include <string>
#include <utility>

#include "engine/io/file_system.h"

namespace hearth::io {

/// A path whose file, which others make, goes with this object, as well as that
/// can be: who makes it again overwrites what is left.
class ScratchFile {
 public:
  /// `files` outlives it.
  ScratchFile(FileSystem& files, std::string path)
      : files_(files), path_(std::move(path)) {}
  ~ScratchFile() { files_.RemoveTree(path_).IgnoreError(); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  FileSystem& files_;
  const std::string path_;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_SCRATCH_FILE_H_
