#ifndef HEARTH_ENGINE_INGEST_PARSE_TESTING_ZIP_BUILDER_H_
#define HEARTH_ENGINE_INGEST_PARSE_TESTING_ZIP_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth::ingest {

/// A member of an archive for tests.
struct ZipSource {
  std::string name = {};
  std::string contents = {};
  bool deflate = false;
  /// Puts sizes and offset into zip64's extra field.
  bool zip64 = false;
  uint16_t flags = 0;
  /// Wrong values that the archive states in place of the true ones.
  std::optional<uint16_t> claimed_method = {};
  std::optional<uint32_t> claimed_crc32 = {};
  std::optional<uint64_t> claimed_size = {};
};

/// Bytes of a zip file, with zip64's end records if `zip64`.
std::string BuildZip(const std::vector<ZipSource>& members, bool zip64 = false,
                     const std::string& comment = "");

/// `text` compressed by deflate: raw, or as a gzip file.
std::string Deflate(const std::string& text);
std::string Gzip(const std::string& text);

/// `text` as a zstd file, with a checksum and a window of 2^`window_log` bytes.
std::string Zstd(const std::string& text, int window_log = 20);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_TESTING_ZIP_BUILDER_H_
