#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/io/file_system.h"
#include "engine/store/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto files = hearth::io::NewMemoryFileSystem(
      std::string(reinterpret_cast<const char*>(data), size));
  hearth::store::ReadSafeTensors(*files, "x").IgnoreError();
  return 0;
}
