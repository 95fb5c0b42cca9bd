#include "engine/io/fault_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

// The handler of a signal may run on any thread at any moment, so the table of
// guards is an array of atomics that it reads without locks. A guard is there
// once `begin` is not 0; `end` and `fault` are set before.

namespace hearth::io {
namespace {

constexpr uint64_t kNoFault = UINT64_MAX;

struct Guard {
  std::atomic<bool> taken = false;
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<uint64_t> fault = kNoFault;
};

static_assert(std::atomic<uintptr_t>::is_always_lock_free);

std::array<Guard, FaultGuard::kMaxGuards>& Guards() {
  static auto& guards = *new std::array<Guard, FaultGuard::kMaxGuards>();
  return guards;
}

// Set before the handler is installed.
std::array<Guard, FaultGuard::kMaxGuards>* guards_of_handler = nullptr;
uintptr_t page_bytes = 0;
struct sigaction previous_action;

// Puts a page of zeros where the fault was. mmap is a plain system call, and
// so safe here.
bool Repair(uintptr_t address) {
  for (Guard& guard : *guards_of_handler) {
    const uintptr_t begin = guard.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= guard.end.load()) continue;
    const uintptr_t page = address & ~(page_bytes - 1);
    if (::mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return false;
    }
    uint64_t none = kNoFault;
    guard.fault.compare_exchange_strong(none, page - begin);
    return true;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (Repair(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  // The fault repeats itself once this returns, and ends the process.
  ::sigaction(SIGBUS, &previous_action, nullptr);
}

void InstallHandler() {
  guards_of_handler = &Guards();
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = &OnBusError;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &previous_action);
}

}  // namespace

FaultGuard::FaultGuard(absl::Span<const std::byte> pages) : index_(kMaxGuards) {
  static std::once_flag once;
  std::call_once(once, InstallHandler);
  const auto begin = reinterpret_cast<uintptr_t>(pages.data());
  for (size_t i = 0; i < kMaxGuards && !pages.empty(); ++i) {
    Guard& guard = Guards()[i];
    if (guard.taken.exchange(true)) continue;
    guard.fault = kNoFault;
    guard.end = begin + pages.size();
    guard.begin.store(begin, std::memory_order_release);
    index_ = i;
    return;
  }
}

FaultGuard::~FaultGuard() {
  if (index_ == kMaxGuards) return;
  Guard& guard = Guards()[index_];
  guard.begin.store(0, std::memory_order_release);
  guard.taken = false;
}

std::optional<uint64_t> FaultGuard::first_fault() const {
  if (index_ == kMaxGuards) return std::nullopt;
  const uint64_t fault = Guards()[index_].fault;
  if (fault == kNoFault) return std::nullopt;
  return fault;
}

}  // namespace hearth::io
