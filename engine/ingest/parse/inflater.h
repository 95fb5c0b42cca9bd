#ifndef HEARTH_ENGINE_INGEST_PARSE_INFLATER_H_
#define HEARTH_ENGINE_INGEST_PARSE_INFLATER_H_

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Decompresses part of a file with zlib, through 64 KiB of input and zlib's
/// window of 32 KiB. Messages have the offset in the file; the caller adds its
/// name. Single-owner.
class Inflater {
 public:
  enum class Format {
    /// Deflate within gzip's header and trailer, whose CRC and length are
    /// verified.
    kGzip,
    /// Deflate alone, as in zip files.
    kRaw,
  };

  /// Decompresses bytes `begin` .. `end` of `file`, which must outlive this.
  Inflater(io::ReadableFile& file, uint64_t begin, uint64_t end, Format format);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` and returns the number of bytes: fewer than out.size() only at
  /// the end of the compressed stream. DATA_LOSS if the stream is truncated or
  /// damaged; after an error every later call returns that error.
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out);

  /// Whether the compressed stream has been read to its end.
  bool ended() const { return ended_; }

  /// Offset in the file of the first byte that was not decompressed.
  uint64_t input_offset() const { return fetched_ - stream_.avail_in; }

  /// Skips zero bytes up to the first other byte or the end of the input.
  absl::Status SkipZeros();

  /// Starts another compressed stream at input_offset(). REQUIRES: ended().
  void StartStream();

 private:
  absl::Status Initialize();
  absl::Status Fetch();
  absl::Status Step();
  absl::Status Damaged(absl::string_view problem) const;

  io::ReadableFile& file_;
  const uint64_t end_;
  const Format format_;
  std::vector<std::byte> input_;
  /// Offset in the file after the input that was read.
  uint64_t fetched_;
  z_stream stream_ = {};
  bool initialized_ = false;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_INFLATER_H_
