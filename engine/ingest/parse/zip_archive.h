#ifndef HEARTH_ENGINE_INGEST_PARSE_ZIP_ARCHIVE_H_
#define HEARTH_ENGINE_INGEST_PARSE_ZIP_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A member of a zip file, as the file's directory describes it.
struct ZipMember {
  std::string name;
  /// Uncompressed.
  uint64_t size_bytes = 0;
  uint64_t compressed_bytes = 0;
  uint32_t crc32 = 0;
  /// Else it is kept as it is.
  bool is_deflated = false;
  /// Offset in the file of the member's own header.
  uint64_t header_offset = 0;
};

/// Bounds on what is read into memory.
inline constexpr uint64_t kMaxZipDirectoryBytes = uint64_t{32} << 20;
inline constexpr uint64_t kMaxZipMembers = uint64_t{1} << 18;

/// Reads and checks the directory at the end of `file`, in its order. Refused
/// with INVALID_ARGUMENT: what is no zip file, encryption, methods other than
/// stored and deflated, archives over several files, names given twice, members
/// that overlap, sizes that deflate cannot reach. DATA_LOSS where the directory
/// does not hold together, RESOURCE_EXHAUSTED beyond the bounds. Messages begin
/// with the file's path.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(io::ReadableFile& file);

/// Offset of `member`'s first byte of data, from its own header, which must
/// agree with the directory. Errors as above.
absl::StatusOr<uint64_t> ReadZipDataOffset(io::ReadableFile& file,
                                           const ZipMember& member);

/// A zip file (.npz, PyTorch's .pt), zip64 included, read without unpacking:
/// its members are files. Own code, because libzip does not tell where a stored
/// member lies, so that it could be read in place, and takes memory for as many
/// members as the file claims. Thread-safe.
class ZipArchive {
 public:
  /// Reads the directory; errors as ReadZipDirectory's.
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(
      std::shared_ptr<io::ReadableFile> file);

  /// In the directory's order. Names are as stored: not checked as paths.
  const std::vector<ZipMember>& members() const { return members_; }

  /// The member of that name, or nullptr.
  const ZipMember* Find(absl::string_view name) const;

  /// Offset in the archive of the member's first byte, compressed or not;
  /// stored members can be read and mapped there in place. NOT_FOUND if there
  /// is none of that name, DATA_LOSS if its header is damaged.
  absl::StatusOr<uint64_t> DataOffset(absl::string_view name) const;

  /// The member as a file of its uncompressed size, "ARCHIVE: NAME" in
  /// messages; may outlive this. Errors as DataOffset's.
  ///
  /// Stored members are read at any offset, straight from the archive.
  /// Deflated ones are decompressed as a stream through 256 KiB: ascending
  /// offsets are cheap, what is skipped is decompressed too, and an offset
  /// before the chunk last decompressed starts again from the beginning. Two
  /// rows of one array that are read side by side need two files. Never more
  /// than the declared size comes out.
  ///
  /// The read that takes in the last byte verifies the CRC-32: always of
  /// deflated members, of stored ones if all bytes were read in order (with
  /// overlaps, but no gaps). A mismatch, or damage before, is DATA_LOSS.
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenMember(
      absl::string_view name) const;

 private:
  ZipArchive(std::shared_ptr<io::ReadableFile> file,
             std::vector<ZipMember> members, absl::Time modified);

  const std::shared_ptr<io::ReadableFile> file_;
  const std::vector<ZipMember> members_;
  const absl::Time modified_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_ZIP_ARCHIVE_H_
