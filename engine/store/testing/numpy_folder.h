#ifndef HEARTH_ENGINE_STORE_TESTING_NUMPY_FOLDER_H_
#define HEARTH_ENGINE_STORE_TESTING_NUMPY_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/io/testing/scratch_directory.h"

/// Good and bad .npy files, for tests.

namespace hearth::store {

/// The bytes of some values.
template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

/// The parts of a .npy file, each of which can be made wrong.
struct NpyText {
  std::string descr = "<f4";
  /// The shape as in Python: "(3, 4)".
  std::string shape = "()";
  std::string data = "";
  bool fortran_order = false;
  char version = 1;
};

/// The file's header with `dictionary` in it, padded as numpy does.
std::string NpyHeaderText(const std::string& dictionary, char version);

/// The whole file.
std::string ToBytes(const NpyText& file);

/// A folder with a small good graph of 6 nodes and 7 edges, 3 float32 features
/// each, labels 0 1 2 0 1 -1, and a split of nodes 4 0 | 2 | 1 3. Files can be
/// replaced before use.
class NumpyFolder {
 public:
  static constexpr int64_t kNumNodes = 6;
  static constexpr int64_t kNumEdges = 7;
  static constexpr int64_t kDim = 3;
  static const std::vector<int64_t>& Sources();
  static const std::vector<int64_t>& Destinations();
  static const std::vector<float>& Features();

  NumpyFolder();

  void Write(const std::string& name, const std::string& bytes);
  void Write(const std::string& name, const NpyText& file) {
    Write(name, ToBytes(file));
  }
  void Remove(const std::string& name);
  std::string Read(const std::string& name) const;

  /// Replaces edge_index.npy by indptr.npy and indices.npy with the same edges.
  void UseCsc();

  /// The folder with the source files.
  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  /// Path for the dataset, which does not exist.
  std::string Destination() const { return scratch_.Path("dataset"); }
  const io::ScratchDirectory& scratch() const { return scratch_; }

 private:
  io::ScratchDirectory scratch_;
  std::string path_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_TESTING_NUMPY_FOLDER_H_
