#include "engine/cuda/fake_memory.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

namespace hearth::cuda {
namespace {

// Set in addresses of device memory: no processor accepts those.
constexpr uintptr_t kOnDevice = uintptr_t{1} << 62;
constexpr size_t kPage = 4096;
constexpr int kRubbish = 0xA5;

using Blocks = std::map<uintptr_t, size_t>;

int64_t Sum(const Blocks& blocks) {
  int64_t sum = 0;
  for (const auto& block : blocks) sum += static_cast<int64_t>(block.second);
  return sum;
}

// Whether these bytes are within a block.
bool Holds(const Blocks& blocks, uintptr_t address, size_t bytes) {
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin + bytes <= size;
}

}  // namespace

void* FakeMemory::Allocate(Kind kind, size_t bytes) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(kPage, pages);
  if (memory == nullptr) return nullptr;
  std::memset(memory, kRubbish, pages);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  BlocksOf(kind)[address] = bytes;
  return reinterpret_cast<void*>(kind == Kind::kDevice ? address | kOnDevice
                                                       : address);
}

bool FakeMemory::Release(Kind kind, void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const bool on_device = (address & kOnDevice) != 0;
  const uintptr_t host = address & ~kOnDevice;
  if (on_device != (kind == Kind::kDevice) || BlocksOf(kind).erase(host) == 0) {
    return false;
  }
  std::free(reinterpret_cast<void*>(host));
  return true;
}

bool FakeMemory::Register(void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto after = registered_.lower_bound(address + bytes);
  if (after != registered_.begin()) {
    const auto& [begin, size] = *std::prev(after);
    if (begin + size > address) return false;
  }
  registered_[address] = bytes;
  return true;
}

bool FakeMemory::Unregister(void* memory) {
  return registered_.erase(reinterpret_cast<uintptr_t>(memory)) > 0;
}

int64_t FakeMemory::bytes(Kind kind) const {
  return Sum(kind == Kind::kDevice ? device_ : pinned_);
}

int64_t FakeMemory::registered_bytes() const { return Sum(registered_); }

// 0 if they are out of reach.
uintptr_t FakeMemory::HostAddress(uintptr_t address, size_t bytes,
                                  bool any_of_host) const {
  const bool on_device = (address & kOnDevice) != 0;
  if (!on_device && any_of_host) return address;
  const uintptr_t host = address & ~kOnDevice;
  const bool reached = on_device ? Holds(device_, host, bytes)
                                 : Holds(pinned_, host, bytes) ||
                                       Holds(registered_, host, bytes);
  return reached ? host : 0;
}

}  // namespace hearth::cuda
