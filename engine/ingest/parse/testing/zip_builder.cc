#include "engine/ingest/parse/testing/zip_builder.h"

#include <zlib.h>
#include <zstd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace hearth::ingest {
namespace {

std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

std::string Compress(const std::string& text, int window_bits) {
  z_stream stream = {};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    std::abort();
  }
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Fields that both records of a member share: from the flags to the lengths of
/// name and extra fields.
std::string Shared(const ZipSource& source, uint64_t stored, size_t extra) {
  const uint64_t size = source.claimed_size.value_or(source.contents.size());
  const auto* bytes = reinterpret_cast<const Bytef*>(source.contents.data());
  const auto crc =
      static_cast<uint32_t>(crc32_z(0, bytes, source.contents.size()));
  const uint16_t method = source.deflate ? 8 : 0;
  return absl::StrCat(Little(source.flags, 2),
                      Little(source.claimed_method.value_or(method), 2),
                      Little(0, 4),
                      Little(source.claimed_crc32.value_or(crc), 4),
                      Little(source.zip64 ? 0xFFFFFFFF : stored, 4),
                      Little(source.zip64 ? 0xFFFFFFFF : size, 4),
                      Little(source.name.size(), 2), Little(extra, 2));
}

std::string Zip64Field(const ZipSource& source, uint64_t stored,
                       uint64_t offset) {
  if (!source.zip64) return "";
  const uint64_t size = source.claimed_size.value_or(source.contents.size());
  return absl::StrCat(Little(1, 2), Little(24, 2), Little(size, 8),
                      Little(stored, 8), Little(offset, 8));
}

std::string Zip64End(uint64_t members, uint64_t size, uint64_t offset) {
  return absl::StrCat("PK\x06\x06", Little(44, 8), Little(45, 2), Little(45, 2),
                      Little(0, 8), Little(members, 8), Little(members, 8),
                      Little(size, 8), Little(offset, 8), "PK\x06\x07",
                      Little(0, 4), Little(offset + size, 8), Little(1, 4));
}

}  // namespace

std::string BuildZip(const std::vector<ZipSource>& members, bool zip64,
                     const std::string& comment) {
  std::string archive;
  std::string directory;
  for (const ZipSource& source : members) {
    const std::string data =
        source.deflate ? Deflate(source.contents) : source.contents;
    const uint64_t offset = archive.size();
    const std::string field = Zip64Field(source, data.size(), offset);
    // The extra fields of a member's own header differ from the directory's.
    const std::string padding = absl::StrCat("FB", Little(5, 2), "ZZZZZ");
    absl::StrAppend(&archive, "PK\x03\x04", Little(20, 2),
                    Shared(source, data.size(), padding.size()), source.name,
                    padding, data);
    absl::StrAppend(&directory, "PK\x01\x02", Little(20, 2), Little(20, 2),
                    Shared(source, data.size(), field.size()), Little(0, 2),
                    Little(0, 2), Little(0, 2), Little(0, 4),
                    Little(source.zip64 ? 0xFFFFFFFF : offset, 4), source.name,
                    field);
  }
  const uint64_t offset = archive.size();
  archive += directory;
  if (zip64) {
    archive += Zip64End(members.size(), directory.size(), offset);
  }
  return absl::StrCat(archive, "PK\x05\x06", Little(0, 4),
                      Little(zip64 ? 0xFFFF : members.size(), 2),
                      Little(zip64 ? 0xFFFF : members.size(), 2),
                      Little(zip64 ? 0xFFFFFFFF : directory.size(), 4),
                      Little(zip64 ? 0xFFFFFFFF : offset, 4),
                      Little(comment.size(), 2), comment);
}

std::string Deflate(const std::string& text) {
  return Compress(text, -MAX_WBITS);
}

std::string Gzip(const std::string& text) {
  return Compress(text, MAX_WBITS + 16);
}

std::string Zstd(const std::string& text, int window_log) {
  ZSTD_CStream* const stream = ZSTD_createCStream();
  ZSTD_CCtx_setParameter(stream, ZSTD_c_windowLog, window_log);
  ZSTD_CCtx_setParameter(stream, ZSTD_c_checksumFlag, 1);
  // The frame declares its window only if it does not know the size of the
  // text.
  ZSTD_inBuffer input = {text.data(), text.size(), 0};
  std::string out(ZSTD_compressBound(text.size()) + 64, '\0');
  ZSTD_outBuffer output = {out.data(), out.size(), 0};
  while (input.pos < input.size) {
    ZSTD_compressStream2(stream, &output, &input, ZSTD_e_continue);
  }
  if (ZSTD_compressStream2(stream, &output, &input, ZSTD_e_end) != 0) {
    std::abort();
  }
  ZSTD_freeCStream(stream);
  out.resize(output.pos);
  return out;
}

}  // namespace hearth::ingest
