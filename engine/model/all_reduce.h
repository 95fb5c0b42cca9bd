#ifndef HEARTH_ENGINE_MODEL_ALL_REDUCE_H_
#define HEARTH_ENGINE_MODEL_ALL_REDUCE_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hearth::model {

/// Where the ranks of one group find each other, within this process.
/// Thread-safe.
class AllReduceMeeting {
 public:
  /// Of ranks 0 .. size - 1. A rank that waits for another longer than
  /// `timeout`, to meet or for a sum, gives up: only a broken one is that late.
  explicit AllReduceMeeting(
      int size, std::chrono::milliseconds timeout = std::chrono::minutes(5));

 private:
  friend class AllReduce;

  const int size_;
  const std::chrono::milliseconds timeout_;
  const c10::intrusive_ptr<c10d::Store> store_;
};

/// One rank of a group that adds tensors up: c10d's Gloo, over loopback sockets
/// and no other network. Single-owner; each rank belongs to another thread.
/// Throws what LibTorch throws, also after the meeting's timeout; the group is
/// of no use afterwards.
class AllReduce {
 public:
  /// Connects with all other ranks, which do the same at the same time. The
  /// meeting must outlive the call.
  AllReduce(const AllReduceMeeting& meeting, int rank);

  /// Replaces `tensor` (float32, contiguous, of one size for all ranks) by the
  /// sum of all ranks' tensors. Each element is added up in an order that
  /// depends on sizes alone, once for all ranks: the sum is the same in every
  /// bit for all of them, and each time. Returns when it is there.
  void Sum(const at::Tensor& tensor);

 private:
  const c10::intrusive_ptr<c10d::Backend> group_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_ALL_REDUCE_H_
