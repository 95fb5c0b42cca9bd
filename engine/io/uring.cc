#include "engine/io/uring.h"

#include <liburing.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <deque>
#include <utility>

#include "engine/base/status.h"

namespace hearth::io {
namespace {

// Places for registered files and for registered memory; further ones are read
// unregistered.
constexpr unsigned kRegistrations = 16;
// The kernel takes no larger buffers.
constexpr size_t kMaxMemoryBytes = size_t{1} << 30;

class KernelRing final : public Ring {
 public:
  explicit KernelRing(const io_uring& ring) : ring_(ring) {
    // Fails before Linux 5.19: then nothing is registered.
    if (::io_uring_register_files_sparse(&ring_, kRegistrations) == 0) {
      files_.assign(kRegistrations, false);
    }
    if (::io_uring_register_buffers_sparse(&ring_, kRegistrations) == 0) {
      memories_.assign(kRegistrations, false);
    }
  }

  ~KernelRing() override { ::io_uring_queue_exit(&ring_); }

  void PrepareRead(const RingRead& read) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    const int file = read.file >= 0 ? read.file : read.descriptor;
    const auto size = static_cast<unsigned>(read.out.size());
    if (read.memory >= 0) {
      ::io_uring_prep_read_fixed(entry, file, read.out.data(), size,
                                 read.offset, read.memory);
    } else {
      ::io_uring_prep_read(entry, file, read.out.data(), size, read.offset);
    }
    if (read.file >= 0) entry->flags |= IOSQE_FIXED_FILE;
    ::io_uring_sqe_set_data64(entry, read.tag);
  }

  void PrepareTimeout(uint64_t tag, absl::Duration delay) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    // The timeout must stay in place until the kernel takes the entry.
    if (tag >= timeouts_.size()) timeouts_.resize(tag + 1);
    timeouts_[tag] = {.tv_sec = 0, .tv_nsec = absl::ToInt64Nanoseconds(delay)};
    ::io_uring_prep_timeout(entry, &timeouts_[tag], 0, 0);
    ::io_uring_sqe_set_data64(entry, tag);
  }

  size_t prepared() const override { return ::io_uring_sq_ready(&ring_); }

  void Withdraw(std::vector<uint64_t>& tags) override {
    // Without a polling thread the kernel looks at the queue only in Enter.
    const unsigned head = *ring_.sq.khead;
    for (unsigned i = head; i != ring_.sq.sqe_tail; ++i) {
      tags.push_back(ring_.sq.sqes[i & ring_.sq.ring_mask].user_data);
    }
    ring_.sq.sqe_head = head;
    ring_.sq.sqe_tail = head;
    std::atomic_ref<unsigned>(*ring_.sq.ktail)
        .store(head, std::memory_order_release);
  }

  int Enter(size_t wait_for) override {
    const int taken = wait_for == 0
                          ? ::io_uring_submit(&ring_)
                          : ::io_uring_submit_and_wait(
                                &ring_, static_cast<unsigned>(wait_for));
    return std::min(taken, 0);
  }

  int WaitForOne() override {
    io_uring_cqe* completion;
    return ::io_uring_wait_cqe(&ring_, &completion);
  }

  void Reap(std::vector<RingCompletion>& completions) override {
    unsigned head;
    unsigned count = 0;
    io_uring_cqe* entry;
    io_uring_for_each_cqe(&ring_, head, entry) {
      completions.push_back({entry->user_data, entry->res});
      ++count;
    }
    ::io_uring_cq_advance(&ring_, count);
  }

  uint32_t overflows() const override { return *ring_.cq.koverflow; }

  int RegisterFile(int descriptor) override {
    return Take(files_, [&](unsigned number) {
      return ::io_uring_register_files_update(&ring_, number, &descriptor, 1);
    });
  }

  void UnregisterFile(int number) override {
    int none = -1;
    ::io_uring_register_files_update(&ring_, static_cast<unsigned>(number),
                                     &none, 1);
    files_[number] = false;
  }

  int RegisterMemory(absl::Span<std::byte> memory) override {
    if (memory.size() > kMaxMemoryBytes) return -EFBIG;
    return Take(memories_, [&](unsigned number) {
      return UpdateMemory(number, {memory.data(), memory.size()});
    });
  }

  void UnregisterMemory(int number) override {
    UpdateMemory(static_cast<unsigned>(number), {nullptr, 0});
    memories_[number] = false;
  }

 private:
  /// Gives `update` a free number; it returns how many it updated, or an error.
  template <typename Update>
  static int Take(std::vector<bool>& taken, Update update) {
    const auto free = std::find(taken.begin(), taken.end(), false);
    if (free == taken.end()) return -ENOSPC;
    const auto number = static_cast<int>(free - taken.begin());
    const int updated = update(static_cast<unsigned>(number));
    if (updated < 0) return updated;
    *free = true;
    return number;
  }

  int UpdateMemory(unsigned number, iovec memory) {
    __u64 tag = 0;
    return ::io_uring_register_buffers_update_tag(&ring_, number, &memory, &tag,
                                                  1);
  }

  mutable io_uring ring_;
  // By tag. A deque, since growing leaves its elements where they are.
  std::deque<__kernel_timespec> timeouts_;
  // Whether each number is in use; empty if the kernel cannot register.
  std::vector<bool> files_;
  std::vector<bool> memories_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> NewKernelRing(size_t entries) {
  io_uring ring;
  int error = -EINVAL;
  // Without the flag (Linux 5.19) completions interrupt what the thread does.
  for (const unsigned flags : {IORING_SETUP_COOP_TASKRUN, 0u}) {
    error = ::io_uring_queue_init(static_cast<unsigned>(entries), &ring, flags);
    if (error != -EINVAL) break;
  }
  if (error == -EMFILE || error == -ENFILE) {
    return absl::ResourceExhaustedError(
        ErrnoStatus(-error, "io_uring", "setting up").message());
  }
  if (error < 0) return ErrnoStatus(-error, "io_uring", "setting up");
  return std::make_unique<KernelRing>(ring);
}

}  // namespace hearth::io
