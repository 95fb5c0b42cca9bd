#include "engine/ingest/import/edge_blocks.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"

namespace hearth::ingest {
namespace {

constexpr int kQueueCapacity = 2;
// Both ends of the edges in the queue, of those being read and of those being
// visited; the raw bytes behind them, and pairs.
constexpr uint64_t kBlockBytesPerEdge = (kQueueCapacity + 2) * 16 + 32;
constexpr uint64_t kMaxBlockEdges = 256 << 10;
constexpr uint64_t kMinBlockEdges = 256;

/// Blocks whose memory is used again and again. Thread-safe.
class BlockPool {
 public:
  EdgeBlock Take() {
    const absl::MutexLock lock(&mutex_);
    if (free_.empty()) return {};
    EdgeBlock block = std::move(free_.back());
    free_.pop_back();
    return block;
  }

  void Give(EdgeBlock block) {
    const absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(block));
  }

 private:
  absl::Mutex mutex_;
  std::vector<EdgeBlock> free_ ABSL_GUARDED_BY(mutex_);
};

struct BlockItem final : pipeline::Item {
  explicit BlockItem(int64_t number) : number(number) {}

  const int64_t number;
  EdgeBlock block;
};

}  // namespace

absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit) {
  const auto block_edges = static_cast<int64_t>(
      std::clamp(context.memory_limit_bytes() / 8 / kBlockBytesPerEdge,
                 kMinBlockEdges, kMaxBlockEdges));
  const int64_t num_edges = edges.num_edges();
  BlockPool pool;
  const auto read = [&](int, pipeline::Item& item) {
    auto& [number, block] = static_cast<BlockItem&>(item);
    block = pool.Take();
    const int64_t first = number * block_edges;
    return edges.Read(first, std::min(block_edges, num_edges - first), block);
  };
  const auto visit_and_advance = [&](std::unique_ptr<pipeline::Item> item) {
    EdgeBlock& block = static_cast<BlockItem&>(*item).block;
    HEARTH_RETURN_IF_ERROR(visit(block));
    const uint64_t bytes = block.size() * 2 * sizeof(int64_t);
    pool.Give(std::move(block));
    return context.Advance(bytes);
  };
  std::vector<pipeline::Stage> stages;
  stages.push_back(
      {.name = "read", .queue_capacity = kQueueCapacity, .work = read});
  return pipeline::NewPipeline(std::move(stages), "visit", Clock::Real())
      ->Run((num_edges + block_edges - 1) / block_edges,
            [](int64_t number) { return std::make_unique<BlockItem>(number); },
            visit_and_advance, {});
}

}  // namespace hearth::ingest
