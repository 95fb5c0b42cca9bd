#ifndef HEARTH_ENGINE_INGEST_PARSE_ZIP_DIRECTORY_H_
#define HEARTH_ENGINE_INGEST_PARSE_ZIP_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_ZIP_DIRECTORY_H_
