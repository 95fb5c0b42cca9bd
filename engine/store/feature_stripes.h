#ifndef HEARTH_ENGINE_STORE_FEATURE_STRIPES_H_
#define HEARTH_ENGINE_STORE_FEATURE_STRIPES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/store/block_checksums.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"

/// A copy of a dataset's features over several disks, for reads of single rows
/// from all of them. The rows of a node type, as they are stored, are cut into
/// stripes of 2^k rows, a multiple of kStripeUnit bytes; of n disks, disk s % n
/// has stripe s as its stripe s / n (from 0). A disk has two files for each
/// node type t:
///
///   features-t      the disk's stripes, one after the other from byte 0 on;
///                   the last stripe of all disks may be short
///   features-t.crc  checksums of blocks of 64 KiB of that file
///                   (block_checksums.h), sealed with the CRC32C of the
///                   features' own checksum file

namespace hearth::store {

/// Features in stripes, opened for reading rows. Movable.
struct StripedFeatures {
  StoredFeatures features;
  /// The largest file of each disk, where a probe finds the widest range.
  std::vector<io::BlockDevice*> largest_of_disk;
};

/// The layout of a dataset's features in stripes over `disks` disks, and
/// writing, verifying and opening them. A value; thread-safe.
class FeatureStripes {
 public:
  /// Version of the files' format, part of the plan's name.
  static constexpr int kVersion = 1;
  /// Bytes of which a stripe is a multiple, so that each read past the page
  /// cache goes to one disk.
  static constexpr uint64_t kStripeUnit = 4096;
  /// The least bytes of a stripe, except where each disk would get fewer than
  /// kLeastStripes of them.
  static constexpr uint64_t kLeastStripeBytes = 1 << 20;
  static constexpr uint64_t kLeastStripes = 16;
  /// Bytes of memory to write or verify the files of one disk.
  static constexpr uint64_t kMemoryBytesPerDisk = 2 << 20;

  /// REQUIRES: all node types have features, of rows below 4 GiB, as
  /// Dataset::OpenFeatures checks; disks > 0.
  FeatureStripes(const Manifest& manifest, int disks);

  int disks() const { return disks_; }

  /// Text that is equal for equal files of disk `disk`, among datasets with one
  /// fingerprint.
  std::string Describe(int disk) const;

  /// Bytes of all files of one disk, and of its stripes alone.
  uint64_t FileBytes(int disk) const;
  uint64_t StripeBytes(int disk) const;

  /// Called with the bytes that were read and written, on the working thread.
  using Progress = std::function<void(uint64_t bytes)>;

  /// The features of each node type, to be cut into stripes, verified as they
  /// are read (Dataset::ScanFeatures). Thread-safe.
  using Sources = std::vector<std::unique_ptr<io::ReadableFile>>;
  static absl::StatusOr<Sources> OpenSources(const Dataset& dataset,
                                             const std::stop_token& stop);

  /// Writes the files of `disk` to `folder`, which has none of them, past the
  /// page cache, and syncs them; their names are durable once the folder is
  /// synced. RESOURCE_EXHAUSTED, before anything is read, if the disk is full;
  /// DATA_LOSS for damaged features; CANCELLED.
  absl::Status Write(io::FileSystem& files, const Sources& sources, int disk,
                     const std::string& folder, const Progress& progress,
                     const std::stop_token& stop) const;

  /// OK if the files of `disk` exist with their sizes; else NOT_FOUND or
  /// DATA_LOSS, naming the file.
  absl::Status CheckSizes(io::FileSystem& files, int disk,
                          const std::string& folder) const;

  /// Reads the files of `disk` that `record` does not hold against their
  /// checksums. DATA_LOSS, naming file and place; CANCELLED.
  absl::Status Verify(io::FileSystem& files, int disk,
                      const std::string& folder, VerificationRecord& record,
                      const Progress& progress,
                      const std::stop_token& stop) const;

  /// Opens the files in the folders of all disks for reading rows, with the row
  /// layout of `features`, the dataset's own. FAILED_PRECONDITION, naming the
  /// file, if its disk needs reads to be aligned to more than kStripeUnit.
  absl::StatusOr<StripedFeatures> Open(io::FileSystem& files,
                                       absl::Span<const std::string> folders,
                                       const StoredFeatures& features) const;

 private:
  // Stripes of the features of one node type.
  struct Table {
    ArrayFile features;
    uint64_t row_bytes = 0;
    int64_t num_rows = 0;
    int log2_stripe_rows = 0;

    uint64_t stripe_bytes() const { return row_bytes << log2_stripe_rows; }
    uint64_t num_stripes() const;
    // Begin and end of stripe `stripe` among the bytes of all rows.
    uint64_t BeginOf(uint64_t stripe) const { return stripe * stripe_bytes(); }
    uint64_t EndOf(uint64_t stripe) const;
  };

  uint64_t BytesOf(const Table& table, int disk) const;
  // Id that seeds the checksums of a disk's file.
  uint64_t FileId(const Table& table, int disk) const;
  absl::Status WriteTable(io::FileSystem& files, const Table& table,
                          io::ReadableFile& source, int disk,
                          const std::string& path, const Progress& progress,
                          const std::stop_token& stop) const;
  absl::Status VerifyTable(io::FileSystem& files, const Table& table, int disk,
                           const std::string& path, const Progress& progress,
                           const std::stop_token& stop) const;

  int disks_;
  std::vector<Table> tables_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_FEATURE_STRIPES_H_
