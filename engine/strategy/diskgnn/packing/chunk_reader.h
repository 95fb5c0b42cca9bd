#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_CHUNK_READER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_CHUNK_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/diskgnn/layout/address_table.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// Reads the chunks of a plan, for the graph loader and the feature loader of
/// the pipeline (DiskGNN, section 5.3): each by one sequential read past the
/// page cache. Everything is checked against its CRC32C; what does not match is
/// read once more, and is then DATA_LOSS naming file, batch and offset.
///
/// Buffers belong to the caller, are aligned to a page and at least as large as
/// told. Thread-safe, with a buffer for each thread.
class ChunkReader {
 public:
  /// `layout` outlives the reader.
  static absl::StatusOr<std::unique_ptr<ChunkReader>> Open(
      io::FileSystem& files, const std::string& folder,
      const PackedLayout& layout);

  /// Bytes of the largest batch, in whole pages.
  uint64_t sample_buffer_bytes() const { return sample_buffer_bytes_; }
  uint64_t features_buffer_bytes() const { return features_buffer_bytes_; }

  /// The graph sample of batch `batch` of the trace, which has the key `key`.
  absl::StatusOr<sample::MiniBatch> ReadSample(
      int64_t batch, const sample::BatchKey& key,
      absl::Span<std::byte> buffer) const;

  /// Replaces `table` by the batch's address table, and returns its packed
  /// rows, one after the other, which stay in `buffer`.
  absl::StatusOr<absl::Span<const std::byte>> ReadFeatures(
      int64_t batch, absl::Span<std::byte> buffer, AddressTable& table) const;

  /// The same without its rows, which are not read.
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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_CHUNK_READER_H_
