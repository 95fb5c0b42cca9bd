#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PLAN_READER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PLAN_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/block_checksums.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

/// The files of a plan: index, images of the memory levels, chunks and disk
/// cache. All reads are checked against checksums.

namespace hearth::strategy {

/// Writes the index of the plan in `folder`, durably: the last step of packing.
absl::Status WriteLayoutIndex(io::FileSystem& files, const std::string& folder,
                              const PackedLayout& layout);

/// The layout of the plan in `folder`. NOT_FOUND if there is no finished plan;
/// DATA_LOSS, naming the file, if the index is damaged, belongs to another
/// plan, or disagrees with the sizes of the files; FAILED_PRECONDITION if
/// another version of Hearth wrote it.
absl::StatusOr<PackedLayout> ReadLayoutIndex(io::FileSystem& files,
                                             const std::string& folder,
                                             uint64_t plan_id);

/// The layout in the index of `folder`, whose other files may be elsewhere or
/// have a part of its rows. Otherwise as ReadLayoutIndex.
absl::StatusOr<PackedLayout> ReadIndexAlone(io::FileSystem& files,
                                            const std::string& folder,
                                            uint64_t plan_id);

/// Writes the header, kChunkHeaderBytes, before the graph sample of batch
/// `batch` of the layout. In the layout of a part (PackPart), batches are
/// numbered from `first_batch` on.
void WriteChunkHeader(const PackedLayout& layout, int64_t batch, std::byte* to,
                      int64_t first_batch = 0);

/// Whether `bytes` begin with the header of the chunk of batch `batch`.
bool IsChunkHeader(const PackedLayout& layout, int64_t batch,
                   absl::Span<const std::byte> bytes);

/// The file with the rows of a memory level: gpu_cache or cpu_cache of a plan.
struct RowImage {
  std::string path;
  uint32_t crc = 0;
  uint64_t bytes = 0;
};

/// Reads the file into `out`, image.bytes aligned to a page, past the page
/// cache, and compares its checksum. A mismatch is read once more, then
/// DATA_LOSS naming the file; CANCELLED when `stop` is requested.
absl::Status LoadRowImage(io::FileSystem& files, const RowImage& image,
                          absl::Span<std::byte> out,
                          const std::stop_token& stop);

/// Takes the offset of a part of an image, and its bytes.
using TakeImagePart =
    std::function<absl::Status(uint64_t, absl::Span<const std::byte>)>;

/// As LoadRowImage for rows that go where files cannot be read into: calls
/// `take` with parts of the image, in order. A part is valid during the call,
/// in `buffer`: whole pages, aligned to a page. If the image is read once more,
/// `take` gets all of it again. Also returns errors of `take`.
absl::Status StreamRowImage(io::FileSystem& files, const RowImage& image,
                            absl::Span<std::byte> buffer,
                            const TakeImagePart& take,
                            const std::stop_token& stop);

/// Reads the chunks of a plan for the graph loader and the feature loader of
/// the pipeline (DiskGNN, section 5.3), each part by one sequential read past
/// the page cache. Every part is checked against its CRC32C; a mismatch is read
/// once more, then DATA_LOSS naming file, batch and offset.
///
/// Buffers belong to the caller, are aligned to a page and have at least
/// sample_buffer_bytes() or features_buffer_bytes(). Thread-safe, with a buffer
/// for each thread.
class ChunkReader {
 public:
  /// `layout` outlives the reader.
  static absl::StatusOr<std::unique_ptr<ChunkReader>> Open(
      io::FileSystem& files, const std::string& folder,
      const PackedLayout& layout);

  /// Bytes of the largest batch, in whole pages.
  uint64_t sample_buffer_bytes() const { return sample_buffer_bytes_; }
  uint64_t features_buffer_bytes() const { return features_buffer_bytes_; }

  /// The graph sample of batch `batch` of the trace; `key` is its key.
  absl::StatusOr<sample::MiniBatch> ReadSample(
      int64_t batch, const sample::BatchKey& key,
      absl::Span<std::byte> buffer) const;

  /// Replaces `table` by the batch's address table, and returns its packed
  /// rows, concatenated, as a part of `buffer`.
  absl::StatusOr<absl::Span<const std::byte>> ReadFeatures(
      int64_t batch, absl::Span<std::byte> buffer, AddressTable& table) const;

  /// As ReadFeatures without the rows, which are not read.
  absl::Status ReadTable(int64_t batch, absl::Span<std::byte> buffer,
                         AddressTable& table) const;

 private:
  ChunkReader(std::unique_ptr<io::ReadableFile> file,
              const PackedLayout& layout);

  absl::Status Damaged(int64_t batch, uint64_t offset, const char* what) const;

  const std::unique_ptr<io::ReadableFile> file_;
  const PackedLayout& layout_;
  uint64_t sample_buffer_bytes_ = 0;
  uint64_t features_buffer_bytes_ = 0;
};

/// The disk cache of a plan, open for reading: the device, and in memory the
/// checksums of its pages, 4 bytes each. Thread-safe.
struct DiskCache {
  std::unique_ptr<io::BlockDevice> device;
  store::BlockChecksums checksums;
};

/// Opens the disk cache. DATA_LOSS, naming the file, if the checksums are
/// damaged.
absl::StatusOr<DiskCache> OpenDiskCache(io::FileSystem& files,
                                        const std::string& folder,
                                        const PackedLayout& layout,
                                        const io::BlockDeviceOptions& options);

/// Reads rows of the disk cache by pages: requests to one page are merged
/// (DiskGNN, section 4), neighboring pages are read together, and every page is
/// checked. Single-owner, with its queue.
class DiskCacheReader {
 public:
  /// `cache`, `layout` and `queue` outlive the reader. Errors as
  /// io::RowReader::Create. REQUIRES: the disk cache has rows.
  static absl::StatusOr<std::unique_ptr<DiskCacheReader>> Create(
      const DiskCache& cache, const PackedLayout& layout, io::ReadQueue& queue,
      const io::RowReaderOptions& options);

  virtual ~DiskCacheReader() = default;

  /// Reads `rows` (ascending, as in AddressTable::disk), concatenated, into
  /// `out`, [rows.size() * row_bytes]. A damaged page is read once more, then
  /// DATA_LOSS naming the file, `batch` and the offset; otherwise as
  /// io::RowReader::Read. `tally` counts pages as rows.
  virtual absl::Status Read(int64_t batch, absl::Span<const int64_t> rows,
                            absl::Span<std::byte> out, std::stop_token stop,
                            io::ReadTally& tally) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PLAN_READER_H_
