#include "engine/model/runtime/buffer_pool.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <new>

#include "engine/base/byte_size.h"
#include "engine/io/aligned_memory.h"

namespace hearth::model {
namespace {

constexpr size_t kAlignment = 64;
// Rows are read at random, most of them through a translation of an address
// that was not kept: the region consists of huge pages, where there are such.
constexpr size_t kPageBytes = io::AlignedMemory::kHugePageBytes;

// Addresses that last for gaps between buffers that fill the whole memory.
size_t BytesToReserve() {
  return RoundUp(2 * static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<size_t>(::sysconf(_SC_PAGE_SIZE)),
                 kPageBytes);
}

}  // namespace

BufferPool::BufferPool() {
  // The limit of addresses of a process may allow less.
  for (size_t bytes = BytesToReserve(); bytes >= kPageBytes;
       bytes = bytes / 2 / kPageBytes * kPageBytes) {
    void* const mapping =
        ::mmap(nullptr, bytes + kPageBytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    region_ = io::TrimToHugePages(static_cast<std::byte*>(mapping),
                                  bytes + kPageBytes, bytes);
    region_bytes_ = bytes;
    // Advice only: a kernel without huge pages serves small ones.
    ::madvise(region_, bytes, MADV_HUGEPAGE);
    gaps_.emplace(0, bytes);
    return;
  }
}

BufferPool::~BufferPool() {
  if (region_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(region_, pages_.size() * kPageBytes);
  ::munmap(region_, region_bytes_);
}

void* BufferPool::Allocate(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) throw std::bad_alloc();
  const size_t size = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  const auto allocate = [&] {
    return bytes < kSmallestPooled ? std::aligned_alloc(kAlignment, size)
                                   : Place(size);
  };
  void* buffer = allocate();
  if (buffer == nullptr) {
    Clear();
    buffer = allocate();
  }
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}

void* BufferPool::Place(size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes &&
        (best == gaps_.end() || gap->second < best->second)) {
      best = gap;
    }
  }
  if (best == gaps_.end()) return nullptr;
  const auto [offset, gap_bytes] = *best;
  const size_t end = offset + bytes;
  if (!Extend(end)) return nullptr;
  gaps_.erase(best);
  if (gap_bytes > bytes) gaps_.emplace(end, gap_bytes - bytes);
  buffers_.emplace(offset, bytes);
  for (size_t i = offset / kPageBytes; i * kPageBytes < end; ++i) {
    ++pages_[i].buffers;
    if (pages_[i].is_resident) continue;
    pages_[i].is_resident = true;
    resident_bytes_ += kPageBytes;
  }
  used_bytes_ += bytes;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  LimitResident();
  ASAN_UNPOISON_MEMORY_REGION(region_ + offset, bytes);
  return region_ + offset;
}

bool BufferPool::Extend(size_t end) {
  const size_t pages = RoundUp(end, kPageBytes) / kPageBytes;
  if (pages <= pages_.size()) return true;
  if (::mprotect(region_, pages * kPageBytes, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  pages_.resize(pages);
  return true;
}

void BufferPool::Free(void* buffer) {
  auto* const begin = static_cast<std::byte*>(buffer);
  if (begin < region_ || begin >= region_ + region_bytes_) {
    std::free(buffer);
    return;
  }
  const absl::MutexLock lock(&mutex_);
  const size_t offset = begin - region_;
  const auto found = buffers_.find(offset);
  const size_t bytes = found->second;
  const size_t end = offset + bytes;
  buffers_.erase(found);
  ASAN_POISON_MEMORY_REGION(begin, bytes);
  for (size_t i = offset / kPageBytes; i * kPageBytes < end; ++i) {
    if (--pages_[i].buffers == 0) pages_[i].idle_since = trims_;
  }
  used_bytes_ -= bytes;
  auto gap = gaps_.emplace(offset, bytes).first;
  if (const auto next = std::next(gap);
      next != gaps_.end() && next->first == end) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap == gaps_.begin()) return;
  const auto previous = std::prev(gap);
  if (previous->first + previous->second != offset) return;
  previous->second += gap->second;
  gaps_.erase(gap);
}

void BufferPool::Trim() {
  const absl::MutexLock lock(&mutex_);
  ++trims_;
  if (trims_ > kTrimsKept) ReleaseIdle(trims_ - kTrimsKept);
}

void BufferPool::Clear() {
  const absl::MutexLock lock(&mutex_);
  ReleaseIdle(std::numeric_limits<uint64_t>::max());
  most_used_bytes_ = used_bytes_;
}

size_t BufferPool::resident_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return resident_bytes_;
}

// Gives up what was idle longest, as far as needed; of pages idle as long, the
// last: buffers are placed at the region's start where they can be.
void BufferPool::LimitResident() {
  const size_t limit = most_used_bytes_ + most_used_bytes_ / 4;
  while (resident_bytes_ > limit) {
    size_t oldest = pages_.size();
    for (size_t i = pages_.size(); i-- > 0;) {
      const Page& page = pages_[i];
      if (page.is_resident && page.buffers == 0 &&
          (oldest == pages_.size() ||
           page.idle_since < pages_[oldest].idle_since)) {
        oldest = i;
      }
    }
    if (oldest == pages_.size()) return;
    Release(oldest);
  }
}

// Gives up the pages that have been idle since before that trim.
void BufferPool::ReleaseIdle(uint64_t before) {
  for (size_t i = 0; i < pages_.size(); ++i) {
    const Page& page = pages_[i];
    if (page.is_resident && page.buffers == 0 && page.idle_since < before) {
      Release(i);
    }
  }
}

void BufferPool::Release(size_t page) {
  ::madvise(region_ + page * kPageBytes, kPageBytes, MADV_DONTNEED);
  pages_[page].is_resident = false;
  resident_bytes_ -= kPageBytes;
}

}  // namespace hearth::model
