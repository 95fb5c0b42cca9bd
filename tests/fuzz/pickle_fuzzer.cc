#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/ingest/parse/pickle_reader.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/io/file_system.h"
#include "tests/fuzz/pickle_visit.h"

// Pickles without a file around them: in a PyTorch file a checksum would refuse
// most inputs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = hearth::io::NewMemoryFile(
      std::string(reinterpret_cast<const char*>(data), size));
  const auto result =
      hearth::ingest::ReadPickle(*file, 0, hearth::ingest::kFuzzLimits);
  if (!result.ok()) return 0;
  std::vector<const hearth::ingest::TorchTensor*> tensors;
  hearth::ingest::CollectTensors(*result->tree.root, tensors);
  for (const auto* tensor : tensors) tensor->IsContiguous();
  return 0;
}
