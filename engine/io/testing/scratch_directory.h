#ifndef HEARTH_ENGINE_IO_TESTING_SCRATCH_DIRECTORY_H_
#define HEARTH_ENGINE_IO_TESTING_SCRATCH_DIRECTORY_H_

#include <string>

namespace hearth::io {

/// A new, empty folder for a test; removed with all it holds when destroyed.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// Path of `name` in the folder.
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_TESTING_SCRATCH_DIRECTORY_H_
