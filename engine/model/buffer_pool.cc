#include "engine/model/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <new>

#include "engine/base/round_up.h"

namespace hearth::model {
namespace {

// Before each buffer lies its size, in as many bytes as keep it aligned.
constexpr size_t kHeader = 64;
constexpr uintptr_t kHugePage = 2 << 20;
// Blocks from this size on have huge pages.
constexpr size_t kSmallestHuge = size_t{4} << 20;

// Sizes in steps of an eighth to a quarter, so that buffers of about equal
// size replace each other.
size_t BlockSize(size_t bytes) {
  const size_t step =
      bytes < BufferPool::kSmallestPooled ? kHeader : std::bit_floor(bytes) / 8;
  return RoundUp(bytes, step);
}

void* BufferOf(void* block) { return static_cast<std::byte*>(block) + kHeader; }

void* BlockOf(void* buffer) {
  return static_cast<std::byte*>(buffer) - kHeader;
}

size_t SizeOf(void* block) { return *static_cast<size_t*>(block); }

// Asks for huge pages where they lie within the first `bytes` of a block: rows
// are read at random, most of them through a translation of an address that
// was not kept. Those within take no more memory than small ones would.
void AdviseHugePages(void* block, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(block);
  const uintptr_t first = RoundUp(begin, kHugePage);
  const uintptr_t end = (begin + bytes) / kHugePage * kHugePage;
  // Advice only: a kernel without huge pages serves small ones.
  if (first < end) {
    ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  }
}

// A block of `size` bytes, of which `used` are asked for; null if there is no
// memory.
void* NewBlock(size_t size, size_t used) {
  void* const block = std::aligned_alloc(kHeader, size);
  if (block == nullptr) return nullptr;
  if (size >= kSmallestHuge) AdviseHugePages(block, used);
  return new (block) size_t(size);
}

}  // namespace

BufferPool::~BufferPool() { Clear(); }

void* BufferPool::Allocate(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) throw std::bad_alloc();
  const size_t size = BlockSize(bytes + kHeader);
  void* block = size < kSmallestPooled ? nullptr : TakeIdleOrMakeRoom(size);
  if (block == nullptr) block = NewBlock(size, kHeader + bytes);
  if (block == nullptr) {
    Clear();
    block = NewBlock(size, kHeader + bytes);
  }
  if (block == nullptr) {
    const absl::MutexLock lock(&mutex_);
    if (size >= kSmallestPooled) used_bytes_ -= size;
    throw std::bad_alloc();
  }
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
  used_bytes_ -= size;
  idle_.emplace(size, Idle{block, trims_});
  idle_bytes_ += size;
}

void BufferPool::Trim() {
  const absl::MutexLock lock(&mutex_);
  ++trims_;
  if (trims_ > kTrimsKept) ReleaseBefore(trims_ - kTrimsKept);
}

void BufferPool::Clear() {
  const absl::MutexLock lock(&mutex_);
  ReleaseBefore(std::numeric_limits<uint64_t>::max());
  most_used_bytes_ = used_bytes_;
}

size_t BufferPool::idle_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return idle_bytes_;
}

void* BufferPool::TakeIdleOrMakeRoom(size_t size) {
  const absl::MutexLock lock(&mutex_);
  void* const block = TakeIdle(size);
  used_bytes_ += block == nullptr ? size : SizeOf(block);
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  if (block == nullptr) MakeRoom();
  return block;
}

void* BufferPool::TakeIdle(size_t size) {
  auto found = idle_.lower_bound(size);
  // Not one that is far too large: its next user would miss it.
  if (found == idle_.end() || found->first > size + size / 4) return nullptr;
  // The last one used of that size, so that surplus ones grow old.
  found = std::prev(idle_.upper_bound(found->first));
  void* const block = found->second.block;
  idle_bytes_ -= found->first;
  idle_.erase(found);
  return block;
}

// Releases the buffers that are idle longest, until all are within the bound.
void BufferPool::MakeRoom() {
  const size_t most = most_used_bytes_ + most_used_bytes_ / 8;
  while (!idle_.empty() && used_bytes_ + idle_bytes_ > most) {
    Release(std::min_element(idle_.begin(), idle_.end(),
                             [](const auto& a, const auto& b) {
                               return a.second.since < b.second.since;
                             }));
  }
}

BufferPool::Idles::iterator BufferPool::Release(Idles::iterator idle) {
  idle_bytes_ -= idle->first;
  std::free(idle->second.block);
  return idle_.erase(idle);
}

void BufferPool::ReleaseBefore(uint64_t since) {
  for (auto idle = idle_.begin(); idle != idle_.end();) {
    idle = idle->second.since < since ? Release(idle) : std::next(idle);
  }
}

}  // namespace hearth::model
