#ifndef HEARTH_ENGINE_INGEST_EXPORT_BYTE_SINK_H_
#define HEARTH_ENGINE_INGEST_EXPORT_BYTE_SINK_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Takes bytes from the first to the last. Single-owner.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  virtual absl::Status Append(absl::Span<const std::byte> data) = 0;

  /// Nothing follows: what was appended is durable. Once.
  virtual absl::Status Finish() = 0;

  absl::Status AppendText(absl::string_view text) {
    return Append(absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(text.data()), text.size()));
  }

  template <typename T>
  absl::Status AppendValues(absl::Span<const T> values) {
    return Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }
};

/// Writes to a file, in blocks of a MiB.
std::unique_ptr<ByteSink> NewFileSink(std::unique_ptr<io::WritableFile> file);

/// Compresses to a gzip file of one member, without name and time.
std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> compressed);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_BYTE_SINK_H_
