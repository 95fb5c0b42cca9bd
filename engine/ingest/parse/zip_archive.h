#ifndef HEARTH_ENGINE_INGEST_PARSE_ZIP_ARCHIVE_H_
#define HEARTH_ENGINE_INGEST_PARSE_ZIP_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

/// Zip files: their directory, and their members as files.

namespace hearth::ingest {

/// A member of a zip file, according to the directory of the file.
struct ZipMember {
  std::string name;
  /// Uncompressed size.
  uint64_t size_bytes = 0;
  uint64_t compressed_bytes = 0;
  uint32_t crc32 = 0;
  /// Whether the member is deflated; otherwise it is stored.
  bool is_deflated = false;
  /// Offset in the file of the member's own header.
  uint64_t header_offset = 0;
};

/// Limits on what is read into memory.
inline constexpr uint64_t kMaxZipDirectoryBytes = uint64_t{32} << 20;
inline constexpr uint64_t kMaxZipMembers = uint64_t{1} << 18;

/// Reads and checks the directory at the end of `file`; members are in its
/// order. INVALID_ARGUMENT if `file` is no zip file, for encryption, for
/// methods other than stored and deflated, for archives over several files, for
/// names given twice, for members that overlap, and for sizes that deflate
/// cannot reach. DATA_LOSS if the directory is inconsistent, RESOURCE_EXHAUSTED
/// beyond the limits. Messages begin with the path of the file.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(io::ReadableFile& file);

/// Offset of the first data byte of `member`, from the member's own header,
/// which must agree with the directory. Errors of ReadZipDirectory.
absl::StatusOr<uint64_t> ReadZipDataOffset(io::ReadableFile& file,
                                           const ZipMember& member);

/// A zip file (.npz, PyTorch's .pt), zip64 included, read without unpacking:
/// its members are files. Thread-safe. Hearth does not use libzip for it:
/// libzip does not tell the place of a stored member, which is needed to read
/// it in place, and allocates for as many members as the file claims.
class ZipArchive {
 public:
  /// Reads the directory; errors of ReadZipDirectory.
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(
      std::shared_ptr<io::ReadableFile> file);

  /// Members in the order of the directory. Names are as stored; they are not
  /// checked as paths.
  const std::vector<ZipMember>& members() const { return members_; }

  /// The member of that name, or null.
  const ZipMember* Find(absl::string_view name) const;

  /// Offset in the archive of the member's first byte, compressed or not;
  /// stored members can be read and mapped there. NOT_FOUND if there is no such
  /// member, DATA_LOSS if its header is damaged.
  absl::StatusOr<uint64_t> DataOffset(absl::string_view name) const;

  /// Opens a member as a file of its uncompressed size, called "ARCHIVE: NAME"
  /// in messages; the file may outlive the archive. Errors of DataOffset.
  ///
  /// A stored member is read from the archive at any offset. A deflated member
  /// is decompressed as a stream, through 256 KiB: reads at ascending offsets
  /// are cheap, though skipped bytes are decompressed, too, and a read before
  /// the current chunk starts again from the beginning. To read two rows of one
  /// array side by side, open two files. No more than the declared size is ever
  /// decompressed.
  ///
  /// The read of the last byte verifies the CRC-32: always for deflated
  /// members; for stored members if all bytes were read in order (reads may
  /// overlap, but leave no gap). DATA_LOSS for a mismatch, or for damage found
  /// earlier.
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
