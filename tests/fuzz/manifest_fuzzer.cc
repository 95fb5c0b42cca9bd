#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/store/manifest.h"

// Manifests: the input as it is, and sealed with the right checksum.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  hearth::store::ParseManifest(text, "m").IgnoreError();
  const uint32_t crc = hearth::Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
  const auto sealed = hearth::store::ParseManifest(
      text + absl::StrFormat(",\n  \"crc32c\": \"%08x\"\n}\n", crc), "m");
  if (!sealed.ok()) return 0;
  // A manifest that was read can be written and read again.
  const std::string written = hearth::store::SerializeManifest(*sealed);
  const auto again = hearth::store::ParseManifest(written, "m");
  if (!again.ok() || hearth::store::SerializeManifest(*again) != written) {
    __builtin_trap();
  }
  return 0;
}
