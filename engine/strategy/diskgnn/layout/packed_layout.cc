#include "engine/strategy/diskgnn/layout/packed_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/strategy/packing/batch_code.h"
#include "engine/strategy/packing/file_range.h"

// An encoded table: for each of GPU, CPU and disk the positions, then the rows;
// then the positions of the packed rows. Positions are as wide as the batch's
// last position needs, rows as the level's last row. The lengths of the lists
// are in the plan's index.

namespace hearth::strategy {

namespace {

// Bytes that each of the numbers 0 .. count - 1 needs.
int WidthBelow(int64_t count) {
  return PackedWidth(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1));
}

template <typename Integer>
bool AllBelow(const std::vector<Integer>& values, int64_t bound) {
  return std::all_of(values.begin(), values.end(), [&](Integer value) {
    return value >= 0 && value < bound;
  });
}

/// Takes lists out of a table of known length.
class TableReader {
 public:
  TableReader(const std::byte* at, int64_t num_positions)
      : at_(at), num_positions_(num_positions) {}

  absl::Status Positions(int64_t count, std::vector<int32_t>& positions) {
    positions.resize(static_cast<size_t>(count));
    at_ = Unpack(at_, WidthBelow(num_positions_), absl::MakeSpan(positions));
    if (AllBelow(positions, num_positions_)) return absl::OkStatus();
    return absl::DataLossError("an address table has a position out of range");
  }

  absl::Status Level(int64_t count, int64_t level_rows,
                     LevelAddresses& addresses) {
    HEARTH_RETURN_IF_ERROR(Positions(count, addresses.positions));
    addresses.rows.resize(static_cast<size_t>(count));
    at_ = Unpack(at_, WidthBelow(level_rows), absl::MakeSpan(addresses.rows));
    if (AllBelow(addresses.rows, level_rows)) return absl::OkStatus();
    return absl::DataLossError("an address table has a row out of range");
  }

 private:
  const std::byte* at_;
  const int64_t num_positions_;
};

std::byte* EncodeLevel(const LevelAddresses& addresses, int position_width,
                       int64_t level_rows, std::byte* to) {
  to = Pack(absl::MakeConstSpan(addresses.positions), position_width, to);
  return Pack(absl::MakeConstSpan(addresses.rows), WidthBelow(level_rows), to);
}

}  // namespace

LevelCounts AddressTable::counts() const {
  return {.gpu = std::ssize(gpu.positions),
          .cpu = std::ssize(cpu.positions),
          .disk = std::ssize(disk.positions),
          .packed = std::ssize(packed)};
}

uint64_t EncodedTableBytes(const LevelCounts& counts, const LevelSizes& sizes) {
  return static_cast<uint64_t>(counts.total() * WidthBelow(counts.total()) +
                               counts.gpu * WidthBelow(sizes.gpu) +
                               counts.cpu * WidthBelow(sizes.cpu) +
                               counts.disk * WidthBelow(sizes.disk));
}

std::byte* EncodeTable(const AddressTable& table, const LevelSizes& sizes,
                       std::byte* to) {
  const int width = WidthBelow(table.counts().total());
  to = EncodeLevel(table.gpu, width, sizes.gpu, to);
  to = EncodeLevel(table.cpu, width, sizes.cpu, to);
  to = EncodeLevel(table.disk, width, sizes.disk, to);
  return Pack(absl::MakeConstSpan(table.packed), width, to);
}

absl::Status DecodeTable(absl::Span<const std::byte> bytes,
                         const LevelCounts& counts, const LevelSizes& sizes,
                         AddressTable& table) {
  if (bytes.size() != EncodedTableBytes(counts, sizes)) {
    return absl::DataLossError(absl::StrCat("an address table has ",
                                            bytes.size(), " bytes, not ",
                                            EncodedTableBytes(counts, sizes)));
  }
  TableReader reader(bytes.data(), counts.total());
  HEARTH_RETURN_IF_ERROR(reader.Level(counts.gpu, sizes.gpu, table.gpu));
  HEARTH_RETURN_IF_ERROR(reader.Level(counts.cpu, sizes.cpu, table.cpu));
  HEARTH_RETURN_IF_ERROR(reader.Level(counts.disk, sizes.disk, table.disk));
  return reader.Positions(counts.packed, table.packed);
}

FileRange PackedLayout::SampleRange(int64_t batch) const {
  const Chunk& chunk = chunks[batch];
  return {.offset = chunk.offset,
          .bytes = kChunkHeaderBytes + chunk.sample_bytes};
}

FileRange PackedLayout::TableRange(int64_t batch) const {
  return {.offset = SampleRange(batch).end(),
          .bytes = EncodedTableBytes(chunks[batch].counts, rows)};
}

FileRange PackedLayout::FeaturesRange(int64_t batch) const {
  return {.offset = TableRange(batch).end(),
          .bytes = static_cast<uint64_t>(chunks[batch].counts.packed) *
                   static_cast<uint64_t>(row_bytes)};
}

void PackedLayout::AddChunk(uint64_t sample_bytes, const LevelCounts& counts) {
  chunks.push_back({.offset = packs_bytes(),
                    .sample_bytes = sample_bytes,
                    .counts = counts});
}

void PackedLayout::PlaceChunks() {
  uint64_t offset = 0;
  for (int64_t batch = 0; batch < num_batches(); ++batch) {
    chunks[batch].offset = offset;
    offset = FeaturesRange(batch).end();
  }
}

uint64_t PackedLayout::packs_bytes() const {
  return chunks.empty() ? 0 : FeaturesRange(num_batches() - 1).end();
}

uint64_t PackedLayout::disk_cache_bytes() const {
  return RoundUpToPage(static_cast<uint64_t>(rows.disk * row_bytes));
}

uint64_t PackedLayout::disk_checksums_bytes() const {
  return disk_cache_bytes() / kPageBytes * sizeof(uint32_t);
}

uint64_t PackedLayout::gpu_cache_bytes() const {
  return static_cast<uint64_t>(rows.gpu * row_bytes);
}

uint64_t PackedLayout::cpu_cache_bytes() const {
  return static_cast<uint64_t>(rows.cpu * row_bytes);
}

uint64_t PackedLayout::index_bytes() const {
  return kIndexHeaderBytes + chunks.size() * sizeof(Chunk);
}

uint64_t PackedLayout::total_bytes() const {
  return packs_bytes() + disk_cache_bytes() + disk_checksums_bytes() +
         gpu_cache_bytes() + cpu_cache_bytes() + index_bytes();
}

}  // namespace hearth::strategy
