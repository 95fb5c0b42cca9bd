#ifndef HEARTH_ENGINE_STORE_CONVERTED_ROWS_H_
#define HEARTH_ENGINE_STORE_CONVERTED_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"

/// A copy of a dataset's features in rows of fewer bytes (row_codec.h), and the
/// dataset with that copy in place of its own features. The copy is a folder in
/// the form of a dataset that has nodes and features alone: manifest.json,
/// whose fingerprint is the dataset's, and for node type t
///
///   T.bf16.npy, T.int8.npy    t's rows; a row of int8s has its scale behind
///   it,
///                             so that the array is uint8 [N, dim + 4]
///   ... .crc, ... .rows.crc   checksums, as of all features

namespace hearth::store {

/// Whether rows of `dtype` take fewer bytes than the dataset's own, and those
/// of kScaledInt8 fewer than those of kBFloat16, which are more exact. So rows
/// of all types that take less differ in their bytes.
bool TakesLess(const Manifest& manifest, DType dtype);

/// The manifest of the copy, but for checksums, which are 0. Types without
/// features have none in the copy. `dtype` is as for EncodeRow, here and below.
Manifest ManifestOfConverted(const Manifest& manifest, DType dtype);

/// Bytes of memory that WriteConverted takes.
uint64_t ConvertingMemory(const Manifest& manifest, DType dtype, int threads);

/// How WriteConverted works.
struct ConvertingOptions {
  DType dtype = DType::kBFloat16;
  int threads = 1;
  /// Called with the bytes of rows read so far, and in all.
  std::function<void(uint64_t done, uint64_t total)> progress;
  std::stop_token stop;
};

/// Writes the copy to `folder`, which is empty: reads the features once, in
/// order, against their checksums. The manifest is written last; all files are
/// synced. INVALID_ARGUMENT, naming node and column, for a value that `dtype`
/// cannot hold; RESOURCE_EXHAUSTED if the disk is full; DATA_LOSS for damaged
/// features; CANCELLED.
absl::Status WriteConverted(io::FileSystem& files, const Dataset& dataset,
                            const std::string& folder,
                            const ConvertingOptions& options);

/// Opens the copy in `folder`. Errors as Dataset::Open; also DATA_LOSS if it is
/// not such a copy of a dataset with `manifest`.
absl::StatusOr<std::unique_ptr<Dataset>> OpenConverted(
    io::FileSystem& files, const std::string& folder, const Manifest& manifest,
    DType dtype, VerificationRecord* record);

/// `dataset` with the features of `copy` in place of its own. Labels, topology
/// and the rest are those of `dataset`; the target type is chosen anew.
std::unique_ptr<Dataset> WithConverted(std::unique_ptr<Dataset> dataset,
                                       std::unique_ptr<Dataset> copy);

/// `dataset` as if it had a copy: with the manifest and row layout of
/// WithConverted, but the rows that OpenFeatures finds are at other places of
/// the dataset's own file. For measuring reads; other functions of features are
/// FAILED_PRECONDITION.
std::unique_ptr<Dataset> AsIfConverted(std::unique_ptr<Dataset> dataset,
                                       DType dtype);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_CONVERTED_ROWS_H_
