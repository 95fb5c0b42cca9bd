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

/// Decompresses part of a file with zlib, in 64 KiB of input and zlib's 32 KiB
/// window. Messages give the offset in the file and leave its name to the
/// caller. Single-owner.
class Inflater {
 public:
  enum class Format {
    /// With gzip's header and trailer; CRC and length are verified.
    kGzip,
    /// Deflate alone, as in zip files.
    kRaw,
  };

  /// Input is bytes `begin` .. `end` of `file`, which must outlive this.
  Inflater(io::ReadableFile& file, uint64_t begin, uint64_t end, Format format);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out`; fewer bytes only where the compressed stream ends. DATA_LOSS
  /// if it is truncated or damaged; an error stays.
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out);

  /// Whether the compressed stream's last byte has been taken in.
  bool ended() const { return ended_; }

  /// Offset in the file of the first byte that was not taken in.
  uint64_t input_offset() const { return fetched_ - stream_.avail_in; }

  /// Takes in zero bytes up to the first other byte or the end of the input.
  absl::Status SkipZeros();

  /// Begins another compressed stream at input_offset(). REQUIRES: ended().
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
  /// Offset in the file up to which input was read.
  uint64_t fetched_;
  z_stream stream_ = {};
  bool initialized_ = false;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_INFLATER_H_
