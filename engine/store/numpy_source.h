#ifndef HEARTH_ENGINE_STORE_NUMPY_SOURCE_H_
#define HEARTH_ENGINE_STORE_NUMPY_SOURCE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/npy_reader.h"

namespace hearth::store {

/// The files of a plain numpy folder, open, with headers that fit each other.
struct NumpySource {
  std::unique_ptr<NpyReader> features;
  std::unique_ptr<NpyReader> labels;
  /// Train, valid, test.
  std::array<std::unique_ptr<NpyReader>, 3> split;
  /// Either edges, or indptr and indices.
  std::unique_ptr<NpyReader> edges;
  std::unique_ptr<NpyReader> indptr;
  std::unique_ptr<NpyReader> indices;

  int64_t num_nodes() const { return features->header().shape[0]; }
  int64_t num_edges() const;
};

/// Opens the folder and checks all headers. INVALID_ARGUMENT, or DATA_LOSS for
/// a truncated file, naming the file.
absl::StatusOr<NumpySource> OpenNumpySource(io::FileSystem& files,
                                            const std::string& folder,
                                            bool in_place);

/// Upper bound for the bytes that importing it writes, scratch included.
uint64_t BytesToImport(const NumpySource& source, bool in_place);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NUMPY_SOURCE_H_
