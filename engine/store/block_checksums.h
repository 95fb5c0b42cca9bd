#ifndef HEARTH_ENGINE_STORE_BLOCK_CHECKSUMS_H_
#define HEARTH_ENGINE_STORE_BLOCK_CHECKSUMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"

/// The checksum file of an array: the little-endian CRC32C (BlockCrc32c) of
/// each block of its data, one after the other. The manifest has the size of
/// blocks and the CRC32C of the checksum file itself.

namespace hearth::store {

/// Number of blocks in `data_bytes`: the last one may be short.
uint64_t NumBlocks(uint64_t data_bytes, uint32_t block_bytes);

/// Writes the checksum file of data that passes by in order. Single-owner.
class BlockChecksumWriter {
 public:
  struct Summary {
    /// CRC32C of the checksum file.
    uint32_t file_crc32c = 0;
    /// SHA-256 of the checksum file: stands for the data in the dataset's
    /// fingerprint.
    std::string sha256;
  };

  static absl::StatusOr<std::unique_ptr<BlockChecksumWriter>> Create(
      io::FileSystem& files, const std::string& path, uint64_t file_id,
      uint32_t block_bytes);

  /// Adds the data's next bytes.
  absl::Status Append(absl::Span<const std::byte> data);

  /// Ends the last block; syncs and closes the file.
  absl::StatusOr<Summary> Finish();

  /// Finish with a seal behind the checksums, for BlockChecksums::LoadSealed.
  absl::StatusOr<Summary> Finish(uint32_t owner_crc32c);

 private:
  BlockChecksumWriter(std::unique_ptr<io::WritableFile> file, uint64_t file_id,
                      uint32_t block_bytes);

  void BeginBlock();
  void EndBlock();
  absl::Status Flush();

  const std::unique_ptr<io::WritableFile> file_;
  const uint64_t file_id_;
  const uint32_t block_bytes_;
  uint64_t block_number_ = 0;
  uint32_t block_filled_ = 0;
  uint32_t block_crc_ = 0;
  std::vector<uint32_t> pending_;
  uint32_t file_crc_ = 0;
  Sha256 digest_;
};

/// The checksums of one array, in memory. Thread-safe.
class BlockChecksums {
 public:
  /// Reads the checksum file of `num_blocks` blocks and checks it against
  /// `file_crc32c`. On a mismatch it is read once more, then DATA_LOSS.
  /// CANCELLED after a stop.
  static absl::StatusOr<BlockChecksums> Load(io::FileSystem& files,
                                             const std::string& path,
                                             uint64_t num_blocks,
                                             uint32_t file_crc32c,
                                             const std::stop_token& stop = {});

  /// Bytes of the seal: "HRTHSEAL", the CRC32C of the owner of the checksums,
  /// and the CRC32C of all bytes before it in the file, both little-endian.
  static constexpr uint64_t kSealBytes = 16;

  /// Load for a sealed file; DATA_LOSS also if its owner is another.
  static absl::StatusOr<BlockChecksums> LoadSealed(
      io::FileSystem& files, const std::string& path, uint64_t num_blocks,
      uint32_t owner_crc32c, const std::stop_token& stop = {});

  /// Checksum of block `number`.
  uint32_t of(uint64_t number) const { return checksums_[number]; }

  /// Whether `data` is block `number` of the file `file_id`.
  bool Matches(absl::Span<const std::byte> data, uint64_t file_id,
               uint64_t number) const;

 private:
  explicit BlockChecksums(std::vector<uint32_t> checksums);

  std::vector<uint32_t> checksums_;
};

/// Remembers files that were read whole and matched their checksums, and have
/// not changed since, so that each is verified once in the life of the process,
/// not once a job. Thread-safe.
class VerificationRecord {
 public:
  /// Whether the file was verified in the state `info`.
  bool Holds(const std::string& path, const io::FileInfo& info) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = verified_.find(path);
    return found != verified_.end() && found->second == StateOf(info);
  }

  void Add(const std::string& path, const io::FileInfo& info)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    verified_[path] = StateOf(info);
  }

 private:
  // Size, and time of the last change, which cannot be set.
  using State = std::pair<uint64_t, absl::Time>;

  static State StateOf(const io::FileInfo& info) {
    return {info.size_bytes, info.changed};
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, State> verified_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_BLOCK_CHECKSUMS_H_
