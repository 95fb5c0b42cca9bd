#include "engine/model/all_reduce.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace hearth::model {
namespace {

using c10d::ProcessGroupGloo;

c10::intrusive_ptr<ProcessGroupGloo::Options> Options(
    std::chrono::milliseconds timeout) {
  auto options = ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(
      ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  // There is one sum at a time.
  options->threads = 1;
  return options;
}

}  // namespace

AllReduceMeeting::AllReduceMeeting(int size, std::chrono::milliseconds timeout)
    : size_(size),
      timeout_(timeout),
      store_(c10::make_intrusive<c10d::HashStore>()) {}

AllReduce::AllReduce(const AllReduceMeeting& meeting, int rank)
    : group_(c10::make_intrusive<ProcessGroupGloo>(
          meeting.store_, rank, meeting.size_, Options(meeting.timeout_))) {}

void AllReduce::Sum(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  group_->allreduce(tensors)->wait();
}

}  // namespace hearth::model
