#ifndef HEARTH_ENGINE_INGEST_EXPORT_ZIP_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_ZIP_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/export/byte_sink.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Writes a zip file of members that are stored, not compressed, with zip64
/// where sizes need it. Single-owner.
class ZipWriter {
 public:
  explicit ZipWriter(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)) {}

  /// A member of exactly `size` bytes, which `write` appends; INTERNAL if it
  /// appends others. They begin at a multiple of `alignment` bytes.
  absl::Status AddMember(absl::string_view name, uint64_t size,
                         uint64_t alignment,
                         absl::FunctionRef<absl::Status(ByteSink&)> write);

  /// A member that is `text`.
  absl::Status AddText(absl::string_view name, absl::string_view text,
                       uint64_t alignment);

  /// Writes the directory; syncs and closes the file.
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t size = 0;
    uint32_t crc32 = 0;
    uint64_t offset = 0;
  };

  /// The header before a member's data, padded by an extra field.
  std::string LocalHeader(const Member& member, uint64_t alignment) const;
  absl::Status Append(absl::string_view text);

  const std::unique_ptr<io::WritableFile> file_;
  std::vector<Member> members_;
  uint64_t written_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_ZIP_WRITER_H_
