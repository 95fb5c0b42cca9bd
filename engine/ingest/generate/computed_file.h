#ifndef HEARTH_ENGINE_INGEST_GENERATE_COMPUTED_FILE_H_
#define HEARTH_ENGINE_INGEST_GENERATE_COMPUTED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Items of equal size that are computed when they are asked for. Thread-safe.
class ComputedItems {
 public:
  virtual ~ComputedItems() = default;

  virtual int64_t num_items() const = 0;

  /// Bytes of one.
  virtual int64_t item_bytes() const = 0;

  /// Fills `out`, which is a whole number of items, with those from `first` on.
  virtual void Compute(int64_t first, absl::Span<std::byte> out) const = 0;
};

/// The items one after the other, as a file that can be read at any byte. Its
/// time of modification is always 1970. `path` is for messages.
std::unique_ptr<io::ReadableFile> NewComputedFile(
    std::unique_ptr<const ComputedItems> items, std::string path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_COMPUTED_FILE_H_
