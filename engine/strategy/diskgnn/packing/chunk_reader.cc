#include "engine/strategy/diskgnn/packing/chunk_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/diskgnn/layout/batch_code.h"
#include "engine/strategy/diskgnn/packing/layout_index.h"

namespace hearth::strategy {

ChunkReader::ChunkReader(std::unique_ptr<io::ReadableFile> file,
                         const PackedLayout& layout)
    : file_(std::move(file)), layout_(layout) {
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    sample_buffer_bytes_ = std::max(
        sample_buffer_bytes_, RoundUpToPage(layout.SampleRange(batch).bytes));
    features_buffer_bytes_ =
        std::max(features_buffer_bytes_, layout.FeaturesRange(batch).end() -
                                             layout.TableRange(batch).offset);
  }
}

absl::StatusOr<std::unique_ptr<ChunkReader>> ChunkReader::Open(
    io::FileSystem& files, const std::string& folder,
    const PackedLayout& layout) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(io::JoinPath(folder, kPacksFile)));
  return std::unique_ptr<ChunkReader>(new ChunkReader(std::move(file), layout));
}

absl::Status ChunkReader::Damaged(int64_t batch, uint64_t offset,
                                  const char* what) const {
  return absl::DataLossError(absl::StrCat(file_->path(), ": batch ", batch,
                                          ": the ", what, " at byte ", offset,
                                          " is damaged (its checksum does not "
                                          "match)"));
}

absl::StatusOr<sample::MiniBatch> ChunkReader::ReadSample(
    int64_t batch, const sample::BatchKey& key,
    absl::Span<std::byte> buffer) const {
  const FileRange range = layout_.SampleRange(batch);
  const absl::Span<std::byte> pages = buffer.first(range.end() - range.offset);
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(range.offset, pages));
    absl::Span<const std::byte> bytes = pages.first(range.bytes);
    if (Crc32c(bytes) != layout_.chunks[batch].sample_crc ||
        !IsChunkHeader(layout_, batch, bytes)) {
      continue;
    }
    bytes.remove_prefix(kChunkHeaderBytes);
    absl::StatusOr<sample::MiniBatch> sample = DecodeBatch(bytes, key);
    if (sample.ok()) return sample;
    return Annotate(sample.status(),
                    absl::StrCat(file_->path(), ": batch ", batch, " at byte ",
                                 range.offset));
  }
  return Damaged(batch, range.offset, "graph sample");
}

absl::StatusOr<absl::Span<const std::byte>> ChunkReader::ReadFeatures(
    int64_t batch, absl::Span<std::byte> buffer, AddressTable& table) const {
  const Chunk& chunk = layout_.chunks[batch];
  const FileRange table_range = layout_.TableRange(batch);
  const FileRange features_range = layout_.FeaturesRange(batch);
  const absl::Span<std::byte> pages =
      buffer.first(features_range.end() - table_range.offset);
  const absl::Span<const std::byte> table_bytes =
      pages.first(table_range.bytes);
  const absl::Span<const std::byte> features = pages.subspan(
      features_range.offset - table_range.offset, features_range.bytes);
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(table_range.offset, pages));
    if (Crc32c(table_bytes) != chunk.table_crc) {
      status = Damaged(batch, table_range.offset, "address table");
    } else if (Crc32c(features) != chunk.features_crc) {
      status = Damaged(batch, features_range.offset, "pack of rows");
    } else {
      status =
          Annotate(DecodeTable(table_bytes, chunk.counts, layout_.rows, table),
                   absl::StrCat(file_->path(), ": batch ", batch));
      break;
    }
  }
  HEARTH_RETURN_IF_ERROR(status);
  return features;
}

absl::Status ChunkReader::ReadTable(int64_t batch, absl::Span<std::byte> buffer,
                                    AddressTable& table) const {
  const Chunk& chunk = layout_.chunks[batch];
  const FileRange range = layout_.TableRange(batch);
  const absl::Span<std::byte> pages = buffer.first(range.end() - range.offset);
  const absl::Span<const std::byte> bytes = pages.first(range.bytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(range.offset, pages));
    if (Crc32c(bytes) != chunk.table_crc) continue;
    return Annotate(DecodeTable(bytes, chunk.counts, layout_.rows, table),
                    absl::StrCat(file_->path(), ": batch ", batch));
  }
  return Damaged(batch, range.offset, "address table");
}

}  // namespace hearth::strategy
