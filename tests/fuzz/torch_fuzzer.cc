#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/io/file_system.h"
#include "tests/fuzz/pickle_visit.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxReadBytes = 1 << 16;

void ReadElements(const TorchFile& file, const TorchTensor& tensor) {
  const auto elements = file.OpenTensor(tensor);
  if (!elements.ok()) return;
  std::vector<std::byte> bytes(std::min(elements->size_bytes, kMaxReadBytes));
  elements->file->Read(elements->offset, absl::MakeSpan(bytes)).IgnoreError();
}

}  // namespace
}  // namespace hearth::ingest

// PyTorch files, new and old, and the elements of their tensors.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = hearth::ingest::TorchFile::Open(
      hearth::io::NewMemoryFile(
          std::string(reinterpret_cast<const char*>(data), size)),
      hearth::ingest::kFuzzLimits);
  if (!file.ok()) return 0;
  std::vector<const hearth::ingest::TorchTensor*> tensors;
  hearth::ingest::CollectTensors((*file)->root(), tensors);
  tensors.resize(std::min<size_t>(tensors.size(), 64));
  for (const auto* tensor : tensors) {
    hearth::ingest::ReadElements(**file, *tensor);
  }
  return 0;
}
