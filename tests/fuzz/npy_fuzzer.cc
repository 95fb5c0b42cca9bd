#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/io/file_system.h"
#include "engine/store/npy.h"

// Headers of .npy files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = hearth::io::NewMemoryFile(
      std::string(reinterpret_cast<const char*>(data), size));
  const auto header = hearth::store::ReadNpyHeader(*file);
  // The elements fill the rest of the file.
  if (header.ok() &&
      header->data_offset + static_cast<uint64_t>(header->NumElements() *
                                                  header->type.item_bytes) !=
          size) {
    __builtin_trap();
  }
  return 0;
}
