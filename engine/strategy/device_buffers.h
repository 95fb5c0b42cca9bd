#ifndef HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_
#define HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/store/array_type.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

/// Batches in the memory of a GPU: a pool of buffers for their rows
/// (DeviceBufferPool), the area for what a kernel needs to assemble them
/// (DeviceStaging), and copies of rows as stored (QueueStoredRows).

namespace hearth::strategy {

/// Buffers in a device's memory for the rows of batches, reused. One stream,
/// the writer's, fills a buffer; models copy the rows in streams of their own;
/// then the writer may fill it again. Streams wait for each other where they
/// must, and the host waits for neither, unless a buffer has to grow. The pool
/// holds as many buffers as were ever lent at once.
///
/// Take and Clear belong to the writer's thread; everything else is
/// thread-safe.
class DeviceBufferPool {
 private:
  struct Buffer;

 public:
  /// A buffer lent for a batch: the batch's rows, for models.
  class Lease final : public train::DeviceRows {
   public:
    ~Lease() override;

    std::byte* data() const;

    /// Call it once everything that fills the buffer is queued on `writer`. The
    /// end of the lease then waits for that work, on the thread that ends it,
    /// so that memory which the work reads may be freed afterwards.
    absl::Status Fill(cuda::Stream& writer);

    /// REQUIRES: Fill succeeded.
    absl::Status QueueCopy(void* stream, float* to) const override;

   private:
    friend class DeviceBufferPool;
    Lease(DeviceBufferPool& pool, std::unique_ptr<Buffer> buffer);

    DeviceBufferPool& pool_;
    std::unique_ptr<Buffer> buffer_;
    bool filled_ = false;
  };

  explicit DeviceBufferPool(const cuda::Device& device);
  DeviceBufferPool(const DeviceBufferPool&) = delete;
  DeviceBufferPool& operator=(const DeviceBufferPool&) = delete;
  /// As Clear.
  ~DeviceBufferPool();

  /// Lends a buffer of at least `bytes`. Work queued on `writer` from now on
  /// runs after the copies of the buffer's former rows. The pool must outlive
  /// the lease. RESOURCE_EXHAUSTED if the device has no memory; INTERNAL if it
  /// fails, or failed while an earlier buffer was filled.
  absl::StatusOr<std::unique_ptr<Lease>> Take(uint64_t bytes,
                                              cuda::Stream& writer);

  /// Queues work on `writer` that fills `out`, a buffer.
  using Queue = absl::FunctionRef<absl::Status(std::byte* out)>;

  /// Fills a buffer of `bytes` by `queue`, which is not called for 0 bytes. On
  /// return the work may still be going on, unless it failed: what it reads
  /// must outlive the returned rows, whose end waits for it.
  absl::StatusOr<std::unique_ptr<Lease>> Fill(uint64_t bytes,
                                              cuda::Stream& writer,
                                              Queue queue);

  /// Fills a buffer likewise and copies it to `out` in host memory; all work of
  /// `writer` is done on return.
  absl::Status FillAndCopy(uint64_t bytes, cuda::Stream& writer, Queue queue,
                           float* out);

  /// Frees all buffers, after the copies of their rows. REQUIRES: none is lent.
  void Clear();

 private:
  absl::StatusOr<std::unique_ptr<Lease>> QueueIn(uint64_t bytes,
                                                 cuda::Stream& writer,
                                                 Queue queue);
  absl::StatusOr<std::unique_ptr<Buffer>> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(std::unique_ptr<Buffer> buffer, const absl::Status& filled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status QueueCopy(Buffer& buffer, void* stream, float* to)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<cuda::Stream*> Reader(void* stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const cuda::Device device_;
  absl::Mutex mutex_;
  // Streams of models, by native handle.
  std::map<void*, std::unique_ptr<cuda::Stream>> readers_
      ABSL_GUARDED_BY(mutex_);
  // Returned buffers; the front one came back first.
  std::deque<std::unique_ptr<Buffer>> free_ ABSL_GUARDED_BY(mutex_);
  // The first error of filling a buffer.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

/// The element type of kernels for features of type `dtype`.
HearthCudaElement CudaElement(store::DType dtype);

/// FAILED_PRECONDITION if rows are to be cached on a GPU and there is none.
absl::Status CheckGpuCache(uint64_t gpu_cache_bytes, const Gpu& gpu);

/// Bytes of pinned host memory through which rows go to a cache on a GPU.
inline constexpr uint64_t kGpuLoadBytes = 4 << 20;

/// Queues copies of rows of `row_bytes` bytes as they are stored: row rows[i]
/// of `part` goes to row positions[i] of `to`. `part` has the same lists on the
/// device, but no slots if rows[i] is i. Errors as cuda::Stream.
absl::Status QueueStoredRows(cuda::Stream& stream,
                             const HearthCudaScatterPart& part,
                             absl::Span<const int64_t> rows,
                             absl::Span<const int32_t> positions,
                             int64_t row_bytes, std::byte* to);

/// Device memory for the inputs of a scatter that come from the host: lists,
/// and rows that were read for a batch. Batches follow each other in one
/// stream, so that all share one area, which grows to the largest. Used by one
/// thread at a time.
class DeviceStaging {
 public:
  /// Bytes of the host, and their place in the area.
  struct Block {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };

  /// One part of a scatter (HearthCudaScatterPart), with places in the area
  /// instead of device addresses.
  struct Part {
    /// Rows that the device can read in place; null: the rows are `copied`.
    /// Without `slots`, all rows in order.
    const std::byte* rows = nullptr;
    Block copied = {};
    Block slots = {};
    Block positions = {};
  };

  explicit DeviceStaging(const cuda::Device& device) : device_(device) {}
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Begins a new batch, without parts.
  void Begin();

  /// Adds a part whose rows the device can read in place: row slots[i] of
  /// `rows` goes to position positions[i].
  Part AddReached(const std::byte* rows, absl::Span<const int64_t> slots,
                  absl::Span<const int32_t> positions);

  /// Adds a part whose rows are copied: row i goes to position positions[i].
  Part AddCopied(absl::Span<const std::byte> rows,
                 absl::Span<const int32_t> positions);

  /// Adds a part with rows of `copied`, a part added by AddCopied: its row
  /// slots[i] goes to position positions[i].
  Part AddRowsOf(const Part& copied, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions);

  /// Queues the copies of all added blocks, whose host memory must stay until
  /// the copies are done. An area that is too small is replaced, after `stream`
  /// is done with it. RESOURCE_EXHAUSTED if the device has no memory; INTERNAL
  /// if it fails.
  absl::Status QueueCopies(cuda::Stream& stream);

  /// The part as kernels take it. REQUIRES: QueueCopies since it was added.
  HearthCudaScatterPart At(const Part& part) const;

  /// Frees the area. REQUIRES: no queued work uses it.
  void Clear() { memory_ = {}; }

 private:
  template <typename T>
  Block Add(absl::Span<const T> values);
  template <typename T>
  const T* Copied(const Block& block) const;

  const cuda::Device device_;
  cuda::Memory memory_;
  // Blocks of the current batch.
  std::vector<Block> blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_
