#include "engine/ingest/import/row_blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/pipeline/pipeline.h"

// Blocks are read by one thread, converted by another and visited by the
// caller's: a pipeline, in which at most five blocks hold memory as they are
// read, and five as they are stored. A block is at most a sixteenth of the
// memory limit.

namespace hearth::ingest {
namespace {

constexpr uint64_t kBlocksInLimit = 16;
// Capacity of each queue, so that no thread waits for one that is a little
// late, as on a machine whose cores are busy.
constexpr int kQueueCapacity = 3;

/// Memory blocks of one size, used again and again. Thread-safe.
class BlockMemory {
 public:
  explicit BlockMemory(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  absl::StatusOr<io::AlignedMemory> Take() {
    {
      const absl::MutexLock lock(&mutex_);
      if (!free_.empty()) {
        io::AlignedMemory memory = std::move(free_.back());
        free_.pop_back();
        return memory;
      }
    }
    return io::AlignedMemory::Allocate(size_bytes_);
  }

  void Give(io::AlignedMemory memory) {
    const absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(memory));
  }

 private:
  const uint64_t size_bytes_;
  absl::Mutex mutex_;
  std::vector<io::AlignedMemory> free_ ABSL_GUARDED_BY(mutex_);
};

/// A block on its way.
class BlockItem final : public pipeline::Item {
 public:
  explicit BlockItem(int64_t number) : number(number) {}

  const int64_t number;
  /// The rows as they are in the source, then as they are stored.
  RowBlock rows;
  /// Bytes of the block in the source.
  uint64_t source_bytes = 0;
  io::AlignedMemory memory;
};

class RowPipeline {
 public:
  RowPipeline(ImportContext& context, RowSource source)
      : context_(context),
        source_(std::move(source)),
        read_memory_(source_.memory_bytes()),
        converted_memory_(
            std::max(source_.block_bytes(), source_.stored_block_bytes())) {}

  absl::Status Run(const ConvertRows& convert, VisitRows visit) {
    std::vector<pipeline::Stage> stages;
    stages.push_back({.name = "read",
                      .width = 1,
                      .queue_capacity = kQueueCapacity,
                      .work = [this](int, pipeline::Item& item) {
                        return Read(static_cast<BlockItem&>(item));
                      }});
    if (convert) {
      stages.push_back({.name = "convert",
                        .width = 1,
                        .queue_capacity = kQueueCapacity,
                        .work = [&](int, pipeline::Item& item) {
                          return Convert(convert,
                                         static_cast<BlockItem&>(item));
                        }});
    }
    BlockMemory& last = convert ? converted_memory_ : read_memory_;
    return pipeline::NewPipeline(std::move(stages), "visit", Clock::Real())
        ->Run(
            source_.num_blocks(),
            [](int64_t number) { return std::make_unique<BlockItem>(number); },
            [&](std::unique_ptr<pipeline::Item> item) {
              auto& block = static_cast<BlockItem&>(*item);
              HEARTH_RETURN_IF_ERROR(visit(block.rows));
              last.Give(std::move(block.memory));
              return context_.Advance(block.source_bytes);
            },
            {});
  }

 private:
  absl::Status Read(BlockItem& block) {
    HEARTH_ASSIGN_OR_RETURN(block.memory, read_memory_.Take());
    HEARTH_ASSIGN_OR_RETURN(block.rows,
                            source_.Read(block.number, block.memory.bytes()));
    block.source_bytes = block.rows.bytes.size();
    return absl::OkStatus();
  }

  absl::Status Convert(const ConvertRows& convert, BlockItem& block) {
    HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory to, converted_memory_.Take());
    HEARTH_ASSIGN_OR_RETURN(const uint64_t size,
                            convert(block.rows, to.bytes()));
    std::swap(block.memory, to);
    read_memory_.Give(std::move(to));
    block.rows.bytes = block.memory.bytes().first(size);
    return absl::OkStatus();
  }

  ImportContext& context_;
  /// Used by the thread that reads.
  RowSource source_;
  BlockMemory read_memory_;
  BlockMemory converted_memory_;
};

/// An exponent of ones: NaN or infinity.
template <typename Bits>
int64_t FindAllOnesExponent(absl::Span<const std::byte> elements,
                            Bits exponent) {
  const size_t count = elements.size() / sizeof(Bits);
  const auto is_bad = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, elements.data() + i * sizeof(Bits), sizeof(Bits));
    return (bits & exponent) == exponent;
  };
  // Without a branch, for the compiler to make it wide.
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= is_bad(i);
  if (!any) return -1;
  size_t first = 0;
  while (!is_bad(first)) ++first;
  return static_cast<int64_t>(first);
}

template <typename Bits>
uint64_t ZeroAllOnesExponent(absl::Span<std::byte> elements, Bits exponent) {
  uint64_t zeroed = 0;
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof(Bits));
    if ((bits & exponent) != exponent) continue;
    std::memset(elements.data() + at, 0, sizeof(Bits));
    ++zeroed;
  }
  return zeroed;
}

}  // namespace

absl::Status ForEachRowBlock(ImportContext& context, ArrayReader& matrix,
                             VisitRows visit) {
  return ForEachConvertedBlock(
      context, matrix, {matrix.header().type.item_bytes, nullptr}, visit);
}

absl::Status ForEachConvertedBlock(ImportContext& context, ArrayReader& matrix,
                                   const RowConversion& conversion,
                                   VisitRows visit) {
  HEARTH_ASSIGN_OR_RETURN(
      RowSource source,
      RowSource::Open(context.files(), matrix, conversion.item_bytes,
                      context.memory_limit_bytes() / kBlocksInLimit));
  return RowPipeline(context, std::move(source)).Run(conversion.convert, visit);
}

int64_t FindNonFinite(absl::Span<const std::byte> elements,
                      store::ElementType type) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return FindAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return FindAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return FindAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return FindAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

uint64_t ZeroNonFinite(absl::Span<std::byte> elements,
                       store::ElementType type) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return ZeroAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return ZeroAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return ZeroAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return ZeroAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

}  // namespace hearth::ingest
