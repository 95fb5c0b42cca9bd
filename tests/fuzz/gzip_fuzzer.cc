#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/io/file_system.h"

// Deflate reaches 1,032 to one; a last partial piece adds one.
constexpr size_t kMaxRatio = 1033;
constexpr size_t kPieceBytes = 4093;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto stream = hearth::ingest::NewGzipStream(hearth::io::NewMemoryFile(
      std::string(reinterpret_cast<const char*>(data), size)));
  std::vector<std::byte> piece(kPieceBytes);
  size_t total = 0;
  while (true) {
    const auto count = (*stream)->Read(absl::MakeSpan(piece));
    if (!count.ok()) return 0;
    total += *count;
    if (total > kMaxRatio * size) __builtin_trap();
    if (*count < piece.size()) return 0;
  }
}
