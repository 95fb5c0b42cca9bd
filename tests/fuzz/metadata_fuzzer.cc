#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "engine/ingest/formats/metadata_yaml.h"

namespace {

/// Traps if a path leads out of the dataset's folder.
void CheckPath(const hearth::ingest::MetadataFile& file) {
  const absl::string_view path = file.path;
  if (path.empty() || path[0] == '/' || path == ".." ||
      path.substr(0, 3) == "../" ||
      path.find("/../") != absl::string_view::npos ||
      path.find('\0') != absl::string_view::npos) {
    std::abort();
  }
}

}  // namespace

// metadata.yaml of GraphBolt datasets.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto yaml = hearth::ingest::ParseMetadataYaml(
      {reinterpret_cast<const char*>(data), size}, "metadata.yaml");
  if (!yaml.ok()) return 0;
  for (const auto& nodes : yaml->nodes) {
    if (nodes.num < 0) std::abort();
  }
  for (const auto& edges : yaml->edges) CheckPath(edges.file);
  for (const auto& feature : yaml->features) CheckPath(feature.file);
  for (const auto& feature : yaml->graph_features) CheckPath(feature.file);
  for (const auto& task : yaml->tasks) {
    for (const auto& part : task.sets) {
      for (const auto& set : part) {
        for (const auto& item : set.data) CheckPath(item.file);
      }
    }
  }
  return 0;
}
