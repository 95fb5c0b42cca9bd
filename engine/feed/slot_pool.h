#ifndef HEARTH_ENGINE_FEED_SLOT_POOL_H_
#define HEARTH_ENGINE_FEED_SLOT_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/train/train_step.h"

/// Memory that batches are assembled in and that clients map (Slot), and the
/// pool that lends it (SlotPool).

namespace hearth::feed {

/// The system calls that make a slot's memory, for tests that let them fail.
/// Each returns what the call that it is named after returns, with errno.
/// Stateless; thread-safe.
class MemoryFileCalls {
 public:
  virtual ~MemoryFileCalls() = default;

  /// memfd_create of a file that can be sealed.
  virtual int Create() const;
  /// ftruncate.
  virtual int Resize(int descriptor, uint64_t bytes) const;
  /// mmap of the whole file, shared, for reading and writing.
  virtual void* Map(int descriptor, uint64_t bytes) const;
  /// fcntl: nobody can resize the file, map it shared for writing, write to it
  /// or change its seals. Mappings that exist still write.
  virtual int Seal(int descriptor) const;
  /// madvise.
  virtual int AdviseHugePages(void* address, uint64_t bytes) const;
};

class MemoryFile;
class SlotFiles;

/// A lent file in memory (memfd), which this process alone can write, by
/// data(). Whoever gets the descriptor can read it, or map it privately
/// (MAP_PRIVATE): what is written to such a mapping stays there. The last
/// reference to a Slot gives the file back to its pool, which lends it again,
/// with the bytes that it has, as another Slot. Thread-safe, the bytes apart.
class Slot final : public train::InputMemory {
 public:
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() override;

  /// The first byte, at the beginning of a page.
  std::byte* data() override;

  /// Size of the file: what was asked for, or more.
  uint64_t bytes() const;

  /// Descriptor of the file, open for reading and writing, which the Slot owns.
  int descriptor() const;

  /// Number of the file: no other file of this process has had it. The same
  /// each time that the file is lent.
  uint64_t id() const;

  /// The file is not lent again: somebody who may still read it cannot be told
  /// when it changes. The last reference destroys it.
  void Retire() { retired_ = true; }

  /// Expires when the file is destroyed, here: clients that map it still have
  /// its memory.
  std::weak_ptr<const void> file() const;

 private:
  friend class SlotPool;

  Slot(std::shared_ptr<SlotFiles> files, std::shared_ptr<MemoryFile> file);

  const std::shared_ptr<SlotFiles> files_;
  std::shared_ptr<MemoryFile> file_;
  std::atomic<bool> retired_ = false;
};

/// Lends slots, and lends those that come back again: the pages of a fresh file
/// cost more than what is copied there. There are never more slots than were
/// lent at once, and none is larger than the largest that was asked for needs.
///
/// Lent slots outlive the pool. Thread-safe.
class SlotPool final : public train::InputPool {
 public:
  /// A pool without slots. `expected_bytes` is what nearly any batch needs: no
  /// slot is smaller. `calls` must outlive the pool; null: the system's own.
  static std::shared_ptr<SlotPool> Make(uint64_t expected_bytes,
                                        const MemoryFileCalls* calls = nullptr);

  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  /// As Close.
  ~SlotPool() override;

  /// Lends a slot of `bytes` bytes or more, without waiting: the smallest free
  /// one that is large enough, or else a new one, in place of a free one if
  /// there is any. Sizes are whole pages, from 2 MiB on whole huge pages.
  /// RESOURCE_EXHAUSTED, naming the size, if the system refuses;
  /// FAILED_PRECONDITION after Close.
  absl::StatusOr<std::shared_ptr<Slot>> TakeSlot(uint64_t bytes);

  /// TakeSlot: what it gives is a Slot.
  absl::StatusOr<std::shared_ptr<train::InputMemory>> Take(
      uint64_t bytes) override;

  /// Destroys all free slots, and from now on each slot that comes back.
  void Close();

  /// Size of a slot that holds `bytes` bytes.
  static uint64_t SlotBytes(uint64_t bytes);

  /// Number of slots, lent or free; of those that are lent; and bytes of all.
  int64_t num_slots() const;
  int64_t lent() const;
  uint64_t bytes() const;

 private:
  explicit SlotPool(std::shared_ptr<SlotFiles> files);

  // Shared with lent slots.
  const std::shared_ptr<SlotFiles> files_;
};

}  // namespace hearth::feed

#endif  // HEARTH_ENGINE_FEED_SLOT_POOL_H_
