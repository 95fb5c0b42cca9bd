#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/parse/zip_archive.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kPieceBytes = 1021;
constexpr uint64_t kMaxReadBytes = 1 << 20;

/// Reads the file's beginning in pieces, then its end, then its beginning
/// again.
void ReadAround(io::ReadableFile& file, uint64_t size_bytes) {
  std::vector<std::byte> piece(std::min(size_bytes, kPieceBytes));
  const uint64_t most = std::min(size_bytes, kMaxReadBytes);
  for (uint64_t offset = 0; offset + piece.size() <= most && !piece.empty();
       offset += piece.size()) {
    if (!file.Read(offset, absl::MakeSpan(piece)).ok()) return;
  }
  if (size_bytes > kMaxReadBytes) return;
  file.Read(size_bytes - piece.size(), absl::MakeSpan(piece)).IgnoreError();
  file.Read(0, absl::MakeSpan(piece)).IgnoreError();
}

}  // namespace
}  // namespace hearth::ingest

// Archives (.npz), their members, and the members' .npy headers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto archive = hearth::ingest::ZipArchive::Open(hearth::io::NewMemoryFile(
      std::string(reinterpret_cast<const char*>(data), size)));
  if (!archive.ok()) return 0;
  for (const hearth::ingest::ZipMember& member : (*archive)->members()) {
    const auto file = (*archive)->OpenMember(member.name);
    if (!file.ok()) continue;
    hearth::ingest::ReadAround(**file, member.size_bytes);
    hearth::store::ReadNpyHeader(**file).IgnoreError();
  }
  return 0;
}
