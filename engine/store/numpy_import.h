#ifndef HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_
#define HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"

namespace hearth::store {

/// How to import a plain numpy folder.
struct NumpyImportOptions {
  /// The folder to read: edge_index.npy of shape (2, E) or (E, 2) with sources
  /// first, or indptr.npy and indices.npy; node_feat.npy; node_label.npy; and
  /// train_idx.npy, valid_idx.npy, test_idx.npy. C or Fortran order.
  std::string source;
  /// The dataset's name, in the manifest.
  std::string name;
  /// The dataset's folder: must not exist; appears whole or not at all.
  std::string destination;
  /// Registers node_feat.npy where it lies instead of copying it.
  bool in_place = false;
  /// Upper bound for the import's own buffers.
  uint64_t memory_limit_bytes = 256 << 20;
};

/// Called now and then with what is being done ("features", "edges",
/// "checking") and the bytes done and in all of that phase.
using ImportProgress =
    std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>;

/// What an import did.
struct ImportResult {
  Manifest manifest;
  uint64_t bytes_written = 0;
};

/// Imports a plain numpy folder. Every value is checked; INVALID_ARGUMENT (or
/// DATA_LOSS for truncated files) names the file, the first offending position
/// and what is wrong. Writes into `destination`.tmp, synced, then renamed:
/// after any error, cancellation (CANCELLED) or kill nothing is at
/// `destination`.
absl::StatusOr<ImportResult> ImportNumpyFolder(
    io::FileSystem& files, const NumpyImportOptions& options,
    const ImportProgress& progress, std::stop_token stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_
