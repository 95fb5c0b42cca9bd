#include "engine/strategy/foresight/generation_files.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_records.h"

namespace hearth::strategy {

namespace {

using plan::OptimalCache;

// The version of all files of a plan.
constexpr char kMagic[] = "Hearth foresight 3";
// 2^31 records.
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 37;

struct IndexHeader {
  char magic[24] = {};
  uint64_t plan_id = 0;
  uint32_t num_slots = 0;
  uint32_t row_bytes = 0;
  uint32_t fetching = 0;
  uint32_t state_crc = 0;
  OptimalCache::Totals totals;
  uint64_t num_shards = 0;
  uint64_t num_refills = 0;
};
static_assert(std::is_trivially_copyable_v<IndexHeader> &&
              std::is_trivially_copyable_v<ShardRecord>);

template <typename T>
absl::Span<const std::byte> BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
absl::Span<std::byte> MutableBytesOf(absl::Span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

// Bytes of `slots`.
uint64_t StateBytes(uint64_t num_slots) {
  return num_slots * (sizeof(uint32_t) + sizeof(uint16_t));
}

// Copies `values` to `to` and returns the end.
template <typename T>
std::byte* Put(absl::Span<const T> values, std::byte* to) {
  if (values.empty()) return to;
  std::memcpy(to, values.data(), values.size() * sizeof(T));
  return to + values.size() * sizeof(T);
}

}  // namespace

const char* Name(Fetching fetching) {
  return fetching == Fetching::kPacked ? "packs" : "direct reads";
}

int64_t GenerationIndex::RefillRows() const {
  return std::accumulate(
      shards.begin() + FirstRefill(), shards.end(), int64_t{0},
      [](int64_t sum, const ShardRecord& shard) { return sum + shard.reads; });
}

std::vector<FileRange> GenerationIndex::Packs() const {
  std::vector<FileRange> ranges;
  ranges.reserve(shards.size());
  uint64_t end = 0;
  for (const ShardRecord& shard : shards) {
    ranges.push_back(
        {.offset = end, .bytes = uint64_t{shard.reads} * row_bytes});
    end = ranges.back().end();
  }
  return ranges;
}

uint64_t GenerationIndex::DiskBytes() const {
  uint64_t bytes = sizeof(IndexHeader) + sizeof(ShardRecord) * shards.size() +
                   StateBytes(num_slots) + sizeof(uint32_t);
  for (const ShardRecord& shard : shards) {
    bytes += RoundUpToPage(shard.plan_bytes());
    if (fetching == Fetching::kPacked) {
      bytes += RoundUpToPage(uint64_t{shard.reads} * row_bytes);
    }
  }
  return bytes;
}

absl::Status WriteIndex(io::FileSystem& files, const std::string& folder,
                        const GenerationIndex& index) {
  IndexHeader header = {.plan_id = index.plan_id,
                        .num_slots = index.num_slots,
                        .row_bytes = index.row_bytes,
                        .fetching = static_cast<uint32_t>(index.fetching),
                        .state_crc = index.state_crc,
                        .totals = index.totals,
                        .num_shards = index.shards.size(),
                        .num_refills = index.num_refills};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const auto head = BytesOf(absl::MakeConstSpan(&header, 1));
  const auto records = BytesOf(absl::MakeConstSpan(index.shards));
  const uint32_t crc = Crc32c(records, Crc32c(head));
  return io::WritePiecesAtomically(
      files, io::JoinPath(folder, kGenerationIndexFile),
      {head, records, BytesOf(absl::MakeConstSpan(&crc, 1))});
}

absl::StatusOr<GenerationIndex> ReadIndex(io::FileSystem& files,
                                          const std::string& folder,
                                          uint64_t plan_id) {
  const std::string path = io::JoinPath(folder, kGenerationIndexFile);
  HEARTH_ASSIGN_OR_RETURN(const std::string bytes,
                          io::ReadWholeFile(files, path, kMostIndexBytes));
  IndexHeader header;
  uint32_t crc = 0;
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, ": ", what));
  };
  if (bytes.size() < sizeof(header) + sizeof(crc)) return damaged("is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::memcpy(&crc, bytes.data() + bytes.size() - sizeof(crc), sizeof(crc));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return damaged("is not an index of this version");
  }
  if (crc != Crc32c(BytesOf(absl::MakeConstSpan(bytes.data(),
                                                bytes.size() - sizeof(crc)))) ||
      header.num_shards !=
          (bytes.size() - sizeof(header) - sizeof(crc)) / sizeof(ShardRecord) ||
      header.num_refills > header.num_shards) {
    return damaged("is damaged (its checksum does not match)");
  }
  if (header.plan_id != plan_id) return damaged("is of another plan");
  GenerationIndex index = {.plan_id = header.plan_id,
                           .num_slots = header.num_slots,
                           .row_bytes = header.row_bytes,
                           .fetching = static_cast<Fetching>(header.fetching),
                           .state_crc = header.state_crc,
                           .totals = header.totals,
                           .shards = {},
                           .num_refills = header.num_refills};
  index.shards.resize(header.num_shards);
  if (header.num_shards > 0) {
    std::memcpy(index.shards.data(), bytes.data() + sizeof(header),
                header.num_shards * sizeof(ShardRecord));
  }
  return index;
}

ShardPlanWriter::ShardPlanWriter(io::FileSystem& files, std::string folder,
                                 std::unique_ptr<io::WritableFile> file,
                                 plan::CacheSlots state)
    : files_(files),
      folder_(std::move(folder)),
      file_(std::move(file)),
      state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<ShardPlanWriter>> ShardPlanWriter::Create(
    io::FileSystem& files, const std::string& folder, plan::CacheSlots state) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<io::WritableFile> file,
      files.CreateUncached(io::JoinPath(folder, kShardPlansFile)));
  return std::unique_ptr<ShardPlanWriter>(
      new ShardPlanWriter(files, folder, std::move(file), std::move(state)));
}

absl::Status ShardPlanWriter::Fill(
    absl::Span<const OptimalCache::Filled> rows) {
  for (const OptimalCache::Filled& row : rows)
    state_.nodes[row.slot] = row.node;
  return absl::OkStatus();
}

absl::Status ShardPlanWriter::Batch(int64_t /*batch*/, const ShardPlan& plan) {
  ShardRecord record = {
      .offset = end_,
      .addresses = static_cast<uint32_t>(plan.addresses.size()),
      .entries = static_cast<uint32_t>(plan.entries.size()),
      .reads = static_cast<uint32_t>(plan.reads.size()),
      .drops = static_cast<uint32_t>(plan.drops.size())};
  const uint64_t bytes = record.plan_bytes();
  HEARTH_RETURN_IF_ERROR(buffer_.Resize(RoundUpToPage(bytes)));
  std::byte* to = Put(plan.addresses, buffer_.data());
  to = Put(plan.entries, to);
  to = Put(plan.reads, to);
  to = Put(plan.drops, to);
  if (bytes > 0) {
    std::memset(to, 0, RoundUpToPage(bytes) - bytes);
    record.plan_crc = Crc32c({buffer_.data(), bytes});
    HEARTH_RETURN_IF_ERROR(
        file_->Write(end_, {buffer_.data(), RoundUpToPage(bytes)}));
  }
  end_ += RoundUpToPage(bytes);
  records_.push_back(record);
  return absl::OkStatus();
}

absl::Status ShardPlanWriter::Refill(absl::Span<const uint32_t> nodes,
                                     int64_t row_bytes) {
  const auto most = static_cast<size_t>(MostRefillRows(row_bytes));
  while (!nodes.empty()) {
    const absl::Span<const uint32_t> reads =
        nodes.first(std::min(most, nodes.size()));
    HEARTH_RETURN_IF_ERROR(
        Batch(std::ssize(records_),
              {.addresses = {}, .reads = reads, .entries = {}, .drops = {}}));
    nodes.remove_prefix(reads.size());
    ++num_refills_;
  }
  return absl::OkStatus();
}

absl::Status ShardPlanWriter::Finish(GenerationIndex& index) {
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::StreamWriter> writer,
      io::StreamWriter::Create(files_, io::JoinPath(folder_, kSlotsFile),
                               StateBytes(state_.nodes.size())));
  HEARTH_RETURN_IF_ERROR(
      writer->Append(BytesOf(absl::MakeConstSpan(state_.nodes))));
  HEARTH_RETURN_IF_ERROR(
      writer->Append(BytesOf(absl::MakeConstSpan(state_.idle))));
  HEARTH_RETURN_IF_ERROR(writer->Finish());
  index.state_crc = writer->crc();
  index.num_slots = static_cast<uint32_t>(state_.nodes.size());
  index.shards = std::move(records_);
  index.num_refills = num_refills_;
  return absl::OkStatus();
}

GenerationReader::GenerationReader(GenerationIndex index, std::string folder)
    : index_(std::move(index)),
      folder_(std::move(folder)),
      packs_(index_.Packs()) {}

absl::StatusOr<std::unique_ptr<GenerationReader>> GenerationReader::Open(
    io::FileSystem& files, const std::string& folder, GenerationIndex index) {
  std::unique_ptr<GenerationReader> reader(
      new GenerationReader(std::move(index), folder));
  const GenerationIndex& opened = reader->index_;
  const uint64_t plans_bytes =
      opened.shards.empty()
          ? 0
          : opened.shards.back().offset +
                RoundUpToPage(opened.shards.back().plan_bytes());
  const bool packed = opened.fetching == Fetching::kPacked;
  HEARTH_RETURN_IF_ERROR(
      plan::CheckFileSizes(files, folder,
                           {{kShardPlansFile, plans_bytes},
                            {kSlotsFile, StateBytes(opened.num_slots)}}));
  HEARTH_ASSIGN_OR_RETURN(reader->plans_file_, files.OpenForScan(io::JoinPath(
                                                   folder, kShardPlansFile)));
  HEARTH_ASSIGN_OR_RETURN(reader->state_file_,
                          files.OpenForRead(io::JoinPath(folder, kSlotsFile)));
  if (!packed) return reader;
  HEARTH_RETURN_IF_ERROR(plan::CheckFileSizes(
      files, folder,
      {{kShardPacksFile,
        reader->packs_.empty() ? 0 : reader->packs_.back().end()}}));
  HEARTH_ASSIGN_OR_RETURN(reader->packs_file_, files.OpenForScan(io::JoinPath(
                                                   folder, kShardPacksFile)));
  return reader;
}

absl::Status GenerationReader::ReadRange(io::ReadableFile& file,
                                         uint64_t offset, uint64_t bytes,
                                         uint32_t crc,
                                         absl::Span<std::byte> memory) const {
  if (bytes == 0) return absl::OkStatus();
  // A second read heals damage in transit; damage on disk stays.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(
        file.Read(offset, memory.first(RoundUpToPage(bytes))));
    if (Crc32c(memory.first(bytes)) == crc) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(file.path(), ": the ", bytes, " bytes at byte ", offset,
                   " are damaged (their checksum does not match)"));
}

absl::StatusOr<ShardPlan> GenerationReader::ReadPlan(
    int64_t shard, absl::Span<std::byte> memory) const {
  const ShardRecord& record = index_.shards[shard];
  HEARTH_RETURN_IF_ERROR(ReadRange(*plans_file_, record.offset,
                                   record.plan_bytes(), record.plan_crc,
                                   memory));
  const auto* addresses = reinterpret_cast<const uint32_t*>(memory.data());
  const auto* entries = reinterpret_cast<const OptimalCache::Entry*>(
      addresses + record.addresses);
  const auto* reads =
      reinterpret_cast<const uint32_t*>(entries + record.entries);
  return ShardPlan{.addresses = {addresses, record.addresses},
                   .reads = {reads, record.reads},
                   .entries = {entries, record.entries},
                   .drops = {reads + record.reads, record.drops}};
}

absl::Status GenerationReader::ReadPack(int64_t shard,
                                        absl::Span<std::byte> memory) const {
  return ReadRange(*packs_file_, packs_[shard].offset, packs_[shard].bytes,
                   index_.shards[shard].pack_crc, memory);
}

absl::StatusOr<plan::CacheSlots> GenerationReader::StateBefore(
    int64_t shard, int64_t reuse_distance) const {
  plan::CacheSlots state = {.nodes = std::vector<uint32_t>(index_.num_slots),
                            .idle = std::vector<uint16_t>(index_.num_slots)};
  const auto nodes = MutableBytesOf(absl::MakeSpan(state.nodes));
  const auto idle = MutableBytesOf(absl::MakeSpan(state.idle));
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(state_file_->Read(0, nodes));
    HEARTH_RETURN_IF_ERROR(state_file_->Read(nodes.size(), idle));
    if (Crc32c(idle, Crc32c(nodes)) == index_.state_crc) break;
    if (attempt == 0) continue;
    return absl::DataLossError(absl::StrCat(
        state_file_->path(),
        ": is damaged (its checksum does not match), from byte 0 on"));
  }
  for (uint16_t& shards : state.idle) {
    shards = static_cast<uint16_t>(std::min(shards + shard, reuse_distance));
  }
  cache::AlignedBuffer buffer;
  for (int64_t before = 0; before < shard; ++before) {
    HEARTH_RETURN_IF_ERROR(buffer.Resize(PlanMemory(before)));
    HEARTH_ASSIGN_OR_RETURN(
        const ShardPlan plan,
        ReadPlan(before, absl::MakeSpan(buffer.data(), buffer.size())));
    const auto idle_for =
        static_cast<uint16_t>(std::min(shard - before, reuse_distance));
    for (const uint32_t address : plan.addresses) {
      if (address < index_.num_slots) state.idle[address] = idle_for;
    }
    for (const uint32_t slot : plan.drops) {
      state.nodes[slot] = plan::CacheSlots::kFree;
    }
    for (const OptimalCache::Entry& entry : plan.entries) {
      state.nodes[entry.slot] = plan.reads[entry.read];
    }
  }
  return state;
}

}  // namespace hearth::strategy
