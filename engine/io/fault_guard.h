#ifndef HEARTH_ENGINE_IO_FAULT_GUARD_H_
#define HEARTH_ENGINE_IO_FAULT_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace hearth::io {

/// Keeps the process alive when pages of a mapping cannot be read: the file was
/// cut, or its disk fails (SIGBUS). Such a page becomes one of zeros, and the
/// guard remembers it: who reads a mapping asks the guard before it trusts what
/// it read. Faults elsewhere stay what they were. Thread-safe.
class FaultGuard {
 public:
  /// Guards `pages`, a mapping, from now on; the first guard of the process
  /// installs the handler of SIGBUS. One of more than kMaxGuards guards at a
  /// time guards nothing.
  explicit FaultGuard(absl::Span<const std::byte> pages);
  /// REQUIRES: the mapping is still there.
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  /// Offset, in bytes, of the first page found that could not be read; nullopt
  /// if all could.
  std::optional<uint64_t> first_fault() const;

  static constexpr size_t kMaxGuards = 4096;

 private:
  // Index in the table of guards; kMaxGuards: none.
  size_t index_;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_FAULT_GUARD_H_
