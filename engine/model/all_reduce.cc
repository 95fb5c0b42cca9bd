#include "engine/model/all_reduce.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace hearth::model {
namespace {

using c10d::ProcessGroupGloo;

// The ranks come together when all have computed: only a broken one is late.
constexpr std::chrono::minutes kTimeout(5);

c10::intrusive_ptr<ProcessGroupGloo::Options> Options() {
  auto options = ProcessGroupGloo::Options::create(kTimeout);
  options->devices.push_back(
      ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  // There is one sum at a time.
  options->threads = 1;
  return options;
}

}  // namespace

AllReduceMeeting::AllReduceMeeting(int size)
    : size_(size), store_(c10::make_intrusive<c10d::HashStore>()) {}

AllReduce::AllReduce(const AllReduceMeeting& meeting, int rank)
    : group_(c10::make_intrusive<ProcessGroupGloo>(
          meeting.store_, rank, meeting.size(), Options())) {}

void AllReduce::Sum(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  group_->allreduce(tensors)->wait();
}

}  // namespace hearth::model
