#ifndef HEARTH_ENGINE_SAMPLE_INDICES_SCAN_H_
#define HEARTH_ENGINE_SAMPLE_INDICES_SCAN_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::sample {

/// A part of the indices: those from the `first` on, narrow or wide.
struct IndicesChunk {
  int64_t first = 0;
  int64_t count = 0;
  absl::Span<const std::byte> bytes;
};

/// An array of `count` integers of `index_bytes` (4 or 8) in a file, where it
/// begins at a multiple of them.
struct IndicesArray {
  std::string path;
  uint64_t offset = 0;
  int64_t count = 0;
  int index_bytes = 4;
};

/// Reads the whole array once, in order, past the page cache. Returns the first
/// error of the file or of `visit`; CANCELLED between chunks on a stop.
absl::Status ScanIndices(
    io::FileSystem& files, const IndicesArray& array, std::stop_token stop,
    absl::FunctionRef<absl::Status(const IndicesChunk& chunk)> visit);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_INDICES_SCAN_H_
