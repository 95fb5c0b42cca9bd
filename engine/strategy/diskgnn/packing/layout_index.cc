#include "engine/strategy/diskgnn/packing/layout_index.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/plan/file_sizes.h"

// All numbers little-endian, as the machines are that Hearth runs on.

namespace hearth::strategy {
namespace {

constexpr char kIndexMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'I'};
constexpr char kChunkMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'C'};
// The version of the index and of all files that it is the index of.
constexpr uint32_t kVersion = 1;
// An index of more is no index.
constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 30;

struct IndexHeader {
  char magic[8];
  uint32_t version;
  // The CRC32C of the chunks, all other fields first.
  uint32_t crc;
  uint64_t plan_id;
  int64_t row_bytes;
  int64_t segment_size;
  LevelSizes rows;
  uint32_t gpu_crc;
  uint32_t cpu_crc;
  uint32_t disk_checksums_crc;
  uint32_t num_batches;
};
static_assert(sizeof(IndexHeader) == kIndexHeaderBytes);
static_assert(std::is_trivially_copyable_v<IndexHeader>);

struct ChunkHeader {
  char magic[8];
  uint64_t plan_id;
  int64_t batch;
  uint64_t sample_bytes;
  uint64_t table_bytes;
  uint64_t features_bytes;
  int64_t row_bytes;
  uint32_t version;
  // The CRC32C of the fields above.
  uint32_t crc;
};
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);
static_assert(std::is_trivially_copyable_v<ChunkHeader>);

template <typename T>
absl::Span<const std::byte> BytesOf(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}

uint32_t IndexCrc(IndexHeader header, absl::Span<const std::byte> chunks) {
  header.crc = 0;
  return Crc32c(chunks, Crc32c(BytesOf(header)));
}

IndexHeader HeaderOf(const PackedLayout& layout) {
  IndexHeader header = {};
  std::memcpy(header.magic, kIndexMagic, sizeof(kIndexMagic));
  header.version = kVersion;
  header.plan_id = layout.plan_id;
  header.row_bytes = layout.row_bytes;
  header.segment_size = layout.segment_size;
  header.rows = layout.rows;
  header.gpu_crc = layout.gpu_crc;
  header.cpu_crc = layout.cpu_crc;
  header.disk_checksums_crc = layout.disk_checksums_crc;
  header.num_batches = static_cast<uint32_t>(layout.num_batches());
  return header;
}

absl::StatusOr<PackedLayout> Decode(const std::string& path,
                                    absl::Span<const std::byte> bytes) {
  IndexHeader header;
  const auto damaged = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat(path, ": ", problem));
  };
  if (bytes.size() < sizeof(header)) return damaged("is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kIndexMagic, sizeof(kIndexMagic)) != 0) {
    return damaged("is no index of a plan");
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has format version ", header.version,
                     "; this version of Hearth reads ", kVersion));
  }
  if (bytes.size() != header.num_batches * sizeof(Chunk) ||
      header.crc != IndexCrc(header, bytes)) {
    return damaged("is damaged (its checksum does not match)");
  }
  PackedLayout layout;
  layout.plan_id = header.plan_id;
  layout.row_bytes = header.row_bytes;
  layout.segment_size = header.segment_size;
  layout.rows = header.rows;
  layout.gpu_crc = header.gpu_crc;
  layout.cpu_crc = header.cpu_crc;
  layout.disk_checksums_crc = header.disk_checksums_crc;
  layout.chunks.resize(header.num_batches);
  if (!bytes.empty()) {
    std::memcpy(layout.chunks.data(), bytes.data(), bytes.size());
  }
  return layout;
}

absl::Status CheckSizes(io::FileSystem& files, const std::string& folder,
                        const PackedLayout& layout) {
  const std::pair<const char*, uint64_t> expected[] = {
      {kPacksFile, layout.packs_bytes()},
      {kDiskCacheFile, layout.disk_cache_bytes()},
      {kDiskChecksumsFile, layout.disk_checksums_bytes()},
      {kGpuCacheFile, layout.gpu_cache_bytes()},
      {kCpuCacheFile, layout.cpu_cache_bytes()}};
  return plan::CheckFileSizes(files, folder, expected);
}

ChunkHeader ChunkHeaderOf(const PackedLayout& layout, int64_t batch) {
  ChunkHeader header = {};
  std::memcpy(header.magic, kChunkMagic, sizeof(kChunkMagic));
  header.plan_id = layout.plan_id;
  header.batch = batch;
  header.sample_bytes = layout.chunks[batch].sample_bytes;
  header.table_bytes = layout.TableRange(batch).bytes;
  header.features_bytes = layout.FeaturesRange(batch).bytes;
  header.row_bytes = layout.row_bytes;
  header.version = kVersion;
  header.crc = Crc32c(BytesOf(header).first(offsetof(ChunkHeader, crc)));
  return header;
}

}  // namespace

absl::Status WriteLayoutIndex(io::FileSystem& files, const std::string& folder,
                              const PackedLayout& layout) {
  IndexHeader header = HeaderOf(layout);
  const absl::Span<const std::byte> chunks = {
      reinterpret_cast<const std::byte*>(layout.chunks.data()),
      layout.chunks.size() * sizeof(Chunk)};
  header.crc = IndexCrc(header, chunks);
  return io::WritePiecesAtomically(files, io::JoinPath(folder, kIndexFile),
                                   {BytesOf(header), chunks});
}

absl::StatusOr<PackedLayout> ReadLayoutIndex(io::FileSystem& files,
                                             const std::string& folder,
                                             uint64_t plan_id) {
  const std::string path = io::JoinPath(folder, kIndexFile);
  absl::StatusOr<PackedLayout> layout = absl::UnknownError("not read");
  // Damage on the way is gone at the second reading; damage on disk is not.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_ASSIGN_OR_RETURN(const std::string index,
                            io::ReadWholeFile(files, path, kMaxIndexBytes));
    layout = Decode(
        path, {reinterpret_cast<const std::byte*>(index.data()), index.size()});
    if (layout.ok()) break;
  }
  HEARTH_RETURN_IF_ERROR(layout.status());
  if (layout->plan_id != plan_id) {
    return absl::DataLossError(absl::StrCat(
        path, ": belongs to plan ", layout->plan_id, ", not to ", plan_id));
  }
  HEARTH_RETURN_IF_ERROR(CheckSizes(files, folder, *layout));
  return layout;
}

void WriteChunkHeader(const PackedLayout& layout, int64_t batch,
                      std::byte* to) {
  const ChunkHeader header = ChunkHeaderOf(layout, batch);
  std::memcpy(to, &header, sizeof(header));
}

bool IsChunkHeader(const PackedLayout& layout, int64_t batch,
                   absl::Span<const std::byte> bytes) {
  const ChunkHeader header = ChunkHeaderOf(layout, batch);
  return bytes.size() >= sizeof(header) &&
         std::memcmp(bytes.data(), &header, sizeof(header)) == 0;
}

}  // namespace hearth::strategy
