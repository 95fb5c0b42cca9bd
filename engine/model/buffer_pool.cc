#include "engine/model/buffer_pool.h"

#include <bit>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <new>

namespace hearth::model {
namespace {

// Before each buffer lies its size, in as many bytes as keep it aligned.
constexpr size_t kHeader = 64;

// Sizes in steps of an eighth to a quarter, so that buffers of about equal
// size replace each other.
size_t RoundUp(size_t bytes) {
  const size_t step =
      bytes < BufferPool::kSmallestPooled ? kHeader : std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* BufferOf(void* block) { return static_cast<std::byte*>(block) + kHeader; }

void* BlockOf(void* buffer) {
  return static_cast<std::byte*>(buffer) - kHeader;
}

size_t SizeOf(void* block) { return *static_cast<size_t*>(block); }

// Null if there is no memory.
void* NewBlock(size_t size) {
  void* const block = std::aligned_alloc(kHeader, size);
  if (block != nullptr) new (block) size_t(size);
  return block;
}

}  // namespace

BufferPool::~BufferPool() { Clear(); }

void* BufferPool::Allocate(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) throw std::bad_alloc();
  const size_t size = RoundUp(bytes + kHeader);
  void* block = size < kSmallestPooled ? nullptr : TakeIdle(size);
  if (block == nullptr) block = NewBlock(size);
  if (block == nullptr) {
    Clear();
    block = NewBlock(size);
  }
  if (block == nullptr) throw std::bad_alloc();
  return BufferOf(block);
}

void BufferPool::Free(void* buffer) {
  if (buffer == nullptr) return;
  void* const block = BlockOf(buffer);
  const size_t size = SizeOf(block);
  if (size < kSmallestPooled) {
    std::free(block);
    return;
  }
  const absl::MutexLock lock(&mutex_);
  idle_.emplace(size, Idle{block, trims_});
  idle_bytes_ += size;
}

void BufferPool::Trim() {
  uint64_t oldest;
  {
    const absl::MutexLock lock(&mutex_);
    ++trims_;
    if (trims_ <= kTrimsKept) return;
    oldest = trims_ - kTrimsKept;
  }
  ReleaseBefore(oldest);
}

void BufferPool::Clear() {
  ReleaseBefore(std::numeric_limits<uint64_t>::max());
}

size_t BufferPool::idle_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return idle_bytes_;
}

void* BufferPool::TakeIdle(size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  auto found = idle_.lower_bound(bytes);
  // Not one that is far too large: its next user would miss it.
  if (found == idle_.end() || found->first > bytes + bytes / 2) return nullptr;
  // The last one used of that size, so that surplus ones grow old.
  found = std::prev(idle_.upper_bound(found->first));
  void* const block = found->second.block;
  idle_bytes_ -= found->first;
  idle_.erase(found);
  return block;
}

void BufferPool::ReleaseBefore(uint64_t since) {
  const absl::MutexLock lock(&mutex_);
  for (auto it = idle_.begin(); it != idle_.end();) {
    if (it->second.since >= since) {
      ++it;
      continue;
    }
    idle_bytes_ -= it->first;
    std::free(it->second.block);
    it = idle_.erase(it);
  }
}

}  // namespace hearth::model
