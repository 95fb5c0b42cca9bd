#include "engine/ingest/formats/torch_split.h"

#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/formats/torch_value.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"

namespace hearth::ingest {
namespace {

constexpr char kSplitFile[] = "split_idx.pth";
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};
constexpr char kTestDev[] = "test-dev";

}  // namespace

absl::Status OpenTorchSplit(io::FileSystem& files, const std::string& folder,
                            SourceGraph& graph) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> file,
      OpenTorchFile(files, io::JoinPath(folder, kSplitFile)));
  for (size_t i = 0; i < kParts.size(); ++i) {
    const PickleValue* part = file->root().Find(kParts[i]);
    const PickleValue* const test_dev = file->root().Find(kTestDev);
    if (part == nullptr && i == 2 && test_dev != nullptr) {
      part = test_dev;
      graph.transforms.push_back(
          absl::StrCat(kSplitFile, ": ", kTestDev, " taken for test"));
    }
    HEARTH_ASSIGN_OR_RETURN(graph.nodes[0].split[i],
                            OpenTorchValue(*file, part, kParts[i]));
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
