#ifndef HEARTH_ENGINE_INGEST_FORMATS_ID_RUNS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_ID_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/id_table.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Where a run lies in its file: the distinct ids of consecutive edges,
/// ascending, each with its number in the table they come from.
struct IdRun {
  int64_t num_ids = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  /// CRC32C of its bytes.
  uint32_t crc32c = 0;
};

/// Least buffer for an IdRunReader.
inline constexpr size_t kMinRunBufferBytes = kMaxIdBytes + 8;

/// Writes runs to one scratch file, one after another. Single-owner.
class IdRunWriter {
 public:
  static absl::StatusOr<std::unique_ptr<IdRunWriter>> Create(
      ImportContext& context);

  /// The ids of `table` are the next run.
  absl::Status Write(const IdTable& table);

  /// To be called once, after the last run.
  absl::Status Close() { return file_->Close(); }

  const std::vector<IdRun>& runs() const { return runs_; }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  IdRunWriter(std::string path, std::unique_ptr<io::WritableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Flush(IdRun& run);

  const std::string path_;
  const std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> buffer_;
  std::vector<IdRun> runs_;
  uint64_t size_bytes_ = 0;
};

/// The ids of one run, one after another. Single-owner.
class IdRunReader {
 public:
  /// `file` must outlive it. REQUIRES: buffer_bytes >= kMinRunBufferBytes.
  IdRunReader(io::ReadableFile& file, const IdRun& run, size_t buffer_bytes);

  /// Goes to the next id; false at the end. DATA_LOSS if the run is not what
  /// was written.
  absl::StatusOr<bool> Next();

  /// Valid until the next call of Next.
  absl::string_view id() const { return id_; }
  uint32_t number() const { return number_; }

 private:
  absl::Status Fill();
  absl::Status Damaged() const;

  io::ReadableFile* file_;
  IdRun run_;
  size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  /// The part of the buffer that was not given out yet begins here.
  size_t begin_ = 0;
  uint64_t bytes_read_ = 0;
  uint32_t crc32c_ = 0;
  absl::string_view id_;
  uint32_t number_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_ID_RUNS_H_
