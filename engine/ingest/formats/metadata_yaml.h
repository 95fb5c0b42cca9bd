#ifndef HEARTH_ENGINE_INGEST_FORMATS_METADATA_YAML_H_
#define HEARTH_ENGINE_INGEST_FORMATS_METADATA_YAML_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

/// The metadata.yaml of a GraphBolt OnDiskDataset, raw or preprocessed. Members
/// are empty where the file has nothing; entries that Hearth has no use for are
/// not kept.

namespace hearth::ingest {

/// Longest file that is read.
inline constexpr uint64_t kMaxMetadataBytes = 64 << 10;

/// A file that the yaml refers to.
struct MetadataFile {
  enum class Format { kCsv, kNumpy, kTorch };
  Format format = Format::kNumpy;
  /// Path relative to the dataset's folder; it does not leave the folder.
  std::string path;
};

struct MetadataNodes {
  std::string type;
  int64_t num = 0;
};

struct MetadataEdges {
  /// Edge type: "source:relation:destination".
  std::string type;
  MetadataFile file;
  /// Place of the entry for messages: "metadata.yaml:12".
  std::string place;
};

struct MetadataFeature {
  /// "node", "edge" or "graph".
  std::string domain;
  std::string type;
  std::string name;
  MetadataFile file;
};

/// An array of a set: "seeds", "labels", and so on.
struct MetadataItem {
  std::string name;
  MetadataFile file;
};

/// Nodes of one type in a part of a split.
struct MetadataSet {
  std::string type;
  std::vector<MetadataItem> data;
  std::string place;

  /// The item of that name, or null.
  const MetadataItem* Find(absl::string_view name) const;
};

struct MetadataTask {
  std::string name;
  /// Train, validation, test.
  std::array<std::vector<MetadataSet>, 3> sets;
};

struct MetadataYaml {
  /// Nodes and edges of a raw dataset, if it describes a graph.
  bool has_graph = false;
  std::vector<MetadataNodes> nodes;
  std::vector<MetadataEdges> edges;
  /// Attributes of nodes or edges that the graph keeps for sampling.
  std::vector<MetadataFeature> graph_features;
  std::vector<MetadataFeature> features;
  std::vector<MetadataTask> tasks;
  /// The file of a preprocessed dataset's FusedCSCSamplingGraph.
  std::optional<std::string> topology_path;
};

/// Parses the text of the file at `path`. INVALID_ARGUMENT, naming file and
/// line, for anything that GraphBolt does not write, and for paths that are
/// absolute or leave the folder; RESOURCE_EXHAUSTED for a text that is too
/// long, or that aliases make too long.
absl::StatusOr<MetadataYaml> ParseMetadataYaml(absl::string_view text,
                                               const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_METADATA_YAML_H_
