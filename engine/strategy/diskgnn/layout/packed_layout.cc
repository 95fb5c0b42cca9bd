#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

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
