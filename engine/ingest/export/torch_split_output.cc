#include "engine/ingest/export/torch_split_output.h"

#include <array>
#include <utility>
#include <vector>

#include "engine/ingest/export/array_output.h"

namespace hearth::ingest {
namespace {

constexpr std::array<const char*, 3> kSplitNames = {"train", "valid", "test"};

}  // namespace

TensorOutput IntegerTensor(ImportContext& context, std::string name,
                           store::DType dtype, ArrayReader& integers) {
  return {std::move(name),
          dtype,
          {integers.header().NumElements()},
          [&context, dtype, &integers](ByteSink& sink) {
            return WriteIntegers(context, integers, dtype, sink);
          }};
}

absl::Status WriteTorchSplit(ImportContext& context, SourceNodes& nodes,
                             OutputFolder& folder, const std::string& path) {
  std::vector<TensorOutput> parts;
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    parts.push_back(IntegerTensor(context, kSplitNames[i], store::DType::kInt64,
                                  *nodes.split[i]));
  }
  return WriteTorchDict(folder, path, parts);
}

}  // namespace hearth::ingest
