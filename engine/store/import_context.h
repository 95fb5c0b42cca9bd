#ifndef HEARTH_ENGINE_STORE_IMPORT_CONTEXT_H_
#define HEARTH_ENGINE_STORE_IMPORT_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

namespace hearth::store {

/// Called now and then with what is being done ("checking", "edges",
/// "features") and the bytes done and in all of that phase.
using ImportProgress =
    std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>;

/// What every step of an import needs: files, how much memory its buffers may
/// take, and whom to tell how far it is. Single-owner.
class ImportContext {
 public:
  /// All references must outlive this. `progress` may be empty.
  ImportContext(io::FileSystem& files, uint64_t memory_limit_bytes,
                const ImportProgress& progress, std::stop_token stop)
      : files_(files),
        memory_limit_bytes_(memory_limit_bytes),
        progress_(progress),
        stop_(std::move(stop)) {}

  io::FileSystem& files() { return files_; }
  uint64_t memory_limit_bytes() const { return memory_limit_bytes_; }

  /// A phase of `total` bytes begins.
  void Begin(std::string phase, uint64_t total) {
    phase_ = std::move(phase);
    done_ = 0;
    total_ = total;
  }

  /// `bytes` more of the phase are done. CANCELLED once a stop is requested:
  /// to be called for every block.
  absl::Status Advance(uint64_t bytes) {
    done_ += bytes;
    if (stop_.stop_requested()) {
      return absl::CancelledError("the import was cancelled");
    }
    if (progress_) progress_(phase_, done_, total_);
    return absl::OkStatus();
  }

 private:
  io::FileSystem& files_;
  const uint64_t memory_limit_bytes_;
  const ImportProgress& progress_;
  const std::stop_token stop_;
  std::string phase_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_IMPORT_CONTEXT_H_
