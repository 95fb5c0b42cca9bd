#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_FILES_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_FILES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/row_memory.h"
#include "engine/io/file_system.h"
#include "engine/plan/optimal_cache.h"
#include "engine/strategy/packing/file_range.h"

/// The files of a generation's plan:
///
///   shard_plans  for each shard, from a page on: the address of each input
///                row, the rows that enter the cache, the nodes that are read,
///                and the slots whose rows leave the cache (ShardPlan); then
///                refills
///   packs        for each shard and refill, from a page on: the rows of the
///                nodes that are read; absent where rows are read from the
///                features
///   slots        the node in each slot before the first shard, then how long
///                each has been idle (plan::CacheSlots)
///   index        GenerationIndex; written last: if it exists, the plan is
///   whole
///
/// Refills are plans that only read: where passes come again from their
/// beginning on, the rows that the cache held there and lacks at the end.
///
/// All numbers have 32 bits, but 16 say how long slots have been idle, in the
/// machine's byte order; each range has a CRC32C.

namespace hearth::strategy {

inline constexpr char kShardPlansFile[] = "shard_plans";
inline constexpr char kShardPacksFile[] = "packs";
inline constexpr char kSlotsFile[] = "slots";
inline constexpr char kGenerationIndexFile[] = "index";

/// Rows of a refill, at most: a few MiB of them.
inline int64_t MostRefillRows(int64_t row_bytes) {
  constexpr int64_t kRefillBytes = int64_t{4} << 20;
  return std::max<int64_t>(kRefillBytes / row_bytes, 1);
}

/// How the rows that a generation reads are fetched.
enum class Fetching : uint32_t {
  /// From packs, which one scan of the features fills.
  kPacked = 0,
  /// From the features, row by row.
  kDirect = 1,
};

/// "packs" or "direct reads".
const char* Name(Fetching fetching);

/// The plan of one shard, as plan::OptimalCache made it. Spans are valid while
/// the bytes are that it was decoded from.
using ShardPlan = plan::OptimalCache::BatchPlan;

/// Sizes and places of a shard's plan.
struct ShardRecord {
  uint64_t offset = 0;
  uint32_t addresses = 0;
  uint32_t entries = 0;
  uint32_t reads = 0;
  uint32_t plan_crc = 0;
  uint32_t pack_crc = 0;
  uint32_t drops = 0;

  uint64_t plan_bytes() const {
    return sizeof(uint32_t) *
               (uint64_t{addresses} + uint64_t{reads} + uint64_t{drops}) +
           sizeof(plan::OptimalCache::Entry) * uint64_t{entries};
  }
};

struct GenerationIndex {
  /// The number of the plan, from its name.
  uint64_t plan_id = 0;
  uint32_t num_slots = 0;
  uint32_t row_bytes = 0;
  Fetching fetching = Fetching::kPacked;
  uint32_t state_crc = 0;
  plan::OptimalCache::Totals totals;
  /// Those of shards, then those of refills.
  std::vector<ShardRecord> shards;
  uint64_t num_refills = 0;

  /// Index in `shards` of the first refill.
  int64_t FirstRefill() const {
    return static_cast<int64_t>(shards.size() - num_refills);
  }
  /// Rows that refills read.
  int64_t RefillRows() const;
  /// [shards.size()] ranges of `packs`.
  std::vector<FileRange> Packs() const;
  /// Bytes of all files.
  uint64_t DiskBytes() const;
};

/// Writes the index durably. Errors of writing.
absl::Status WriteIndex(io::FileSystem& files, const std::string& folder,
                        const GenerationIndex& index);

/// NOT_FOUND if there is no index; DATA_LOSS naming the file if it is damaged,
/// another version of Hearth wrote it, or it is of another plan.
absl::StatusOr<GenerationIndex> ReadIndex(io::FileSystem& files,
                                          const std::string& folder,
                                          uint64_t plan_id);

/// Writes `shard_plans` and collects the state before the first shard, while a
/// plan is made. Single-owner.
class ShardPlanWriter final : public plan::OptimalCache::Sink {
 public:
  /// `state`: that of the slots before the cache is filled. `files` outlives
  /// the writer.
  static absl::StatusOr<std::unique_ptr<ShardPlanWriter>> Create(
      io::FileSystem& files, const std::string& folder, plan::CacheSlots state);

  absl::Status Fill(absl::Span<const plan::OptimalCache::Filled> rows) override;
  absl::Status Batch(int64_t batch, const ShardPlan& plan) override;

  /// [slots] the node in each slot before the first shard. Call after Fill.
  const std::vector<uint32_t>& first_nodes() const { return state_.nodes; }

  /// Writes refills with `nodes`, which ascend, behind the last shard.
  absl::Status Refill(absl::Span<const uint32_t> nodes, int64_t row_bytes);

  /// Makes `shard_plans` and `slots` durable, and sets their part of `index`.
  absl::Status Finish(GenerationIndex& index);

 private:
  ShardPlanWriter(io::FileSystem& files, std::string folder,
                  std::unique_ptr<io::WritableFile> file,
                  plan::CacheSlots state);

  io::FileSystem& files_;
  const std::string folder_;
  std::unique_ptr<io::WritableFile> file_;
  plan::CacheSlots state_;
  std::vector<ShardRecord> records_;
  uint64_t num_refills_ = 0;
  uint64_t end_ = 0;
  cache::AlignedBuffer buffer_;
};

/// Reads the files of a plan. Thread-safe.
class GenerationReader {
 public:
  /// DATA_LOSS if a file is missing or has another size.
  static absl::StatusOr<std::unique_ptr<GenerationReader>> Open(
      io::FileSystem& files, const std::string& folder, GenerationIndex index);

  const GenerationIndex& index() const { return index_; }

  /// Bytes of memory for ReadPlan, and for ReadPack: whole pages.
  uint64_t PlanMemory(int64_t shard) const {
    return RoundUpToPage(index_.shards[shard].plan_bytes());
  }
  uint64_t PackMemory(int64_t shard) const {
    return RoundUpToPage(packs_[shard].bytes);
  }

  /// Reads the plan of shard or refill `shard`, an index in GenerationIndex,
  /// into page-aligned `memory`. Damaged bytes are read once more, then
  /// DATA_LOSS naming file and offset.
  absl::StatusOr<ShardPlan> ReadPlan(int64_t shard,
                                     absl::Span<std::byte> memory) const;

  /// Reads the rows that shard `shard` reads, in the order of their nodes.
  /// Errors as ReadPlan. REQUIRES: they are packed.
  absl::Status ReadPack(int64_t shard, absl::Span<std::byte> memory) const;

  /// The slots before shard `shard`, idle for at most `reuse_distance` shards,
  /// with which the plan was made. Reads the plans of all shards before it.
  absl::StatusOr<plan::CacheSlots> StateBefore(int64_t shard,
                                               int64_t reuse_distance) const;

 private:
  GenerationReader(GenerationIndex index, std::string folder);

  absl::Status ReadRange(io::ReadableFile& file, uint64_t offset,
                         uint64_t bytes, uint32_t crc,
                         absl::Span<std::byte> memory) const;

  const GenerationIndex index_;
  const std::string folder_;
  std::vector<FileRange> packs_;
  std::unique_ptr<io::ReadableFile> plans_file_;
  // Null where rows are not packed.
  std::unique_ptr<io::ReadableFile> packs_file_;
  std::unique_ptr<io::ReadableFile> state_file_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_FILES_H_
