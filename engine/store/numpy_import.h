#ifndef HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_
#define HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/import_context.h"
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
  /// Upper bound for the import's own buffers; at least 1 MiB. More makes
  /// sorting the edges of a graph that does not fit quicker.
  uint64_t memory_limit_bytes = 256 << 20;
};

/// What an import did.
struct ImportResult {
  Manifest manifest;
  uint64_t bytes_written = 0;
};

/// Imports a plain numpy folder. Labels are integers or floats, -1 or NaN where
/// a node has none; no part of the split may be empty, name a node twice, or
/// hold an unlabeled one. Every value is checked; INVALID_ARGUMENT (or
/// DATA_LOSS for truncated files) names the file, the first offending position
/// and what is wrong. Writes into `destination`.tmp, synced, then renamed:
/// after any error, cancellation (CANCELLED) or kill nothing is at
/// `destination`. RESOURCE_EXHAUSTED, with the bytes needed, if disk or memory
/// limit do not suffice; ALREADY_EXISTS if something is at `destination`.
absl::StatusOr<ImportResult> ImportNumpyFolder(
    io::FileSystem& files, const NumpyImportOptions& options,
    const ImportProgress& progress, std::stop_token stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NUMPY_IMPORT_H_
