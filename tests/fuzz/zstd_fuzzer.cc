#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/io/file_system.h"

// A block that repeats one byte may be 128 KiB long.
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr size_t kPieceBytes = 65521;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto stream = hearth::ingest::NewZstdStream(
      hearth::io::NewMemoryFile(
          std::string(reinterpret_cast<const char*>(data), size)),
      kWindowBytes);
  std::vector<std::byte> piece(kPieceBytes);
  size_t total = 0;
  while (total < kMaxBytes) {
    const auto count = (*stream)->Read(absl::MakeSpan(piece));
    if (!count.ok()) {
      // After an error, every read returns that error.
      if ((*stream)->Read(absl::MakeSpan(piece)).status() != count.status()) {
        __builtin_trap();
      }
      return 0;
    }
    total += *count;
    if (*count < piece.size()) return 0;
  }
  return 0;
}
