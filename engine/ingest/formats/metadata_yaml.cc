#include "engine/ingest/formats/metadata_yaml.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"
#include "yaml-cpp/yaml.h"

namespace hearth::ingest {
namespace {

// Limit on entries: aliases may repeat lists of lists.
constexpr int kMaxEntries = 10'000;
constexpr std::array<const char*, 3> kSets = {"train_set", "validation_set",
                                              "test_set"};

/// Whether a relative path stays within the folder where it begins.
bool StaysWithin(absl::string_view path) {
  if (path.empty() || path[0] == '/' ||
      path.find('\0') != absl::string_view::npos) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return std::find(parts.begin(), parts.end(), "..") == parts.end();
}

/// Reads the fields of one file. After the first error, which is kept, all
/// fields are empty. Throws the exceptions of yaml-cpp.
class MetadataParser {
 public:
  explicit MetadataParser(const std::string& path) : path_(path) {}

  absl::StatusOr<MetadataYaml> Parse(const YAML::Node& root) {
    if (!root.IsMap()) Fail(root, "is no mapping");
    MetadataYaml yaml;
    ReadGraph(root, yaml);
    yaml.features = ReadFeatures(root);
    for (const YAML::Node& task : List(root, "tasks")) {
      yaml.tasks.push_back(ReadTask(task));
    }
    if (const YAML::Node topology = Field(root, "graph_topology")) {
      const std::string type = Text(topology, "type", "");
      if (type != "FusedCSCSamplingGraph") {
        Fail(topology,
             absl::StrCat("graph_topology.type is \"", absl::CEscape(type),
                          "\"; FusedCSCSamplingGraph is read"));
      }
      yaml.topology_path = ReadPath(topology);
    }
    HEARTH_RETURN_IF_ERROR(status_);
    return yaml;
  }

 private:
  std::string Place(const YAML::Node& node) const {
    return absl::StrCat(path_, ":", node.Mark().line + 1);
  }

  void Fail(const YAML::Node& node, absl::string_view problem) {
    status_.Update(
        absl::InvalidArgumentError(absl::StrCat(Place(node), ": ", problem)));
  }

  /// A field; undefined if it is absent or null.
  YAML::Node Field(const YAML::Node& map, const char* key) {
    if (!status_.ok() || !map.IsMap())
      return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node field = map[key];
    if (!field.IsDefined() || field.IsNull()) {
      return YAML::Node(YAML::NodeType::Undefined);
    }
    return field;
  }

  /// The mappings in a list, which may be absent.
  std::vector<YAML::Node> List(const YAML::Node& map, const char* key) {
    std::vector<YAML::Node> items;
    const YAML::Node list = Field(map, key);
    if (!list.IsDefined()) return items;
    if (!list.IsSequence()) {
      Fail(list, absl::StrCat(key, " is no list"));
      return items;
    }
    for (const YAML::Node& item : list) {
      if (++num_entries_ > kMaxEntries) {
        status_.Update(absl::ResourceExhaustedError(
            absl::StrCat(path_, ": has more than ", kMaxEntries, " entries")));
      }
      if (!item.IsMap()) Fail(item, absl::StrCat(key, " holds no mapping"));
      if (!status_.ok()) return {};
      items.push_back(item);
    }
    return items;
  }

  /// A text; `absent` if there is none.
  std::string Text(const YAML::Node& map, const char* key, const char* absent) {
    const YAML::Node field = Field(map, key);
    if (!field.IsDefined()) {
      if (absent == nullptr && status_.ok()) {
        Fail(map, absl::StrCat(key, " is missing"));
      }
      return absent == nullptr ? "" : absent;
    }
    if (!field.IsScalar()) {
      Fail(field, absl::StrCat(key, " is no text"));
      return "";
    }
    return field.Scalar();
  }

  std::string Required(const YAML::Node& map, const char* key) {
    return Text(map, key, nullptr);
  }

  int64_t Count(const YAML::Node& map, const char* key) {
    const std::string text = Required(map, key);
    int64_t count = 0;
    if (status_.ok() && (!absl::SimpleAtoi(text, &count) || count < 0)) {
      Fail(Field(map, key), absl::StrCat(key, " is \"", absl::CEscape(text),
                                         "\"; a number from 0 on is needed"));
    }
    return count;
  }

  std::string ReadPath(const YAML::Node& map) {
    std::string path = Required(map, "path");
    if (status_.ok() && !StaysWithin(path)) {
      Fail(Field(map, "path"),
           absl::StrCat("path is \"", absl::CEscape(path),
                        "\"; it must be relative to the dataset's folder and "
                        "stay within it"));
    }
    return path;
  }

  MetadataFile ReadFile(const YAML::Node& map, bool is_edges) {
    MetadataFile file;
    const std::string format = Required(map, "format");
    if (format == "numpy") {
      file.format = MetadataFile::Format::kNumpy;
    } else if (is_edges && format == "csv") {
      file.format = MetadataFile::Format::kCsv;
    } else if (!is_edges && format == "torch") {
      file.format = MetadataFile::Format::kTorch;
    } else if (status_.ok()) {
      Fail(Field(map, "format"),
           absl::StrCat("format is \"", absl::CEscape(format), "\"; numpy or ",
                        is_edges ? "csv" : "torch", " is needed"));
    }
    file.path = ReadPath(map);
    return file;
  }

  void ReadGraph(const YAML::Node& root, MetadataYaml& yaml) {
    const YAML::Node graph = Field(root, "graph");
    if (!graph.IsDefined()) return;
    if (!graph.IsMap()) Fail(graph, "graph is no mapping");
    yaml.has_graph = true;
    for (const YAML::Node& nodes : List(graph, "nodes")) {
      yaml.nodes.push_back({Text(nodes, "type", ""), Count(nodes, "num")});
    }
    for (const YAML::Node& edges : List(graph, "edges")) {
      yaml.edges.push_back(
          {Text(edges, "type", ""), ReadFile(edges, true), Place(edges)});
    }
    yaml.graph_features = ReadFeatures(graph);
  }

  std::vector<MetadataFeature> ReadFeatures(const YAML::Node& map) {
    std::vector<MetadataFeature> features;
    for (const YAML::Node& feature : List(map, "feature_data")) {
      MetadataFeature read;
      read.domain = Required(feature, "domain");
      read.type = Text(feature, "type", "");
      read.name = Required(feature, "name");
      if (read.domain != "node" && read.domain != "edge" &&
          read.domain != "graph") {
        Fail(feature, absl::StrCat("domain is \"", absl::CEscape(read.domain),
                                   "\"; node, edge or graph is needed"));
      }
      read.file = ReadFile(feature, false);
      features.push_back(std::move(read));
    }
    return features;
  }

  MetadataTask ReadTask(const YAML::Node& map) {
    MetadataTask task;
    task.name = Text(map, "name", "");
    for (size_t i = 0; i < kSets.size(); ++i) {
      for (const YAML::Node& set : List(map, kSets[i])) {
        MetadataSet read;
        read.type = Text(set, "type", "");
        read.place = Place(set);
        for (const YAML::Node& item : List(set, "data")) {
          read.data.push_back({Text(item, "name", ""), ReadFile(item, false)});
        }
        task.sets[i].push_back(std::move(read));
      }
    }
    return task;
  }

  const std::string& path_;
  absl::Status status_;
  int num_entries_ = 0;
};

}  // namespace

const MetadataItem* MetadataSet::Find(absl::string_view name) const {
  const auto found =
      std::find_if(data.begin(), data.end(),
                   [&](const MetadataItem& item) { return item.name == name; });
  return found == data.end() ? nullptr : &*found;
}

absl::StatusOr<MetadataYaml> ParseMetadataYaml(absl::string_view text,
                                               const std::string& path) {
  if (text.size() > kMaxMetadataBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", text.size(), " bytes; ", kMaxMetadataBytes,
                     " are read"));
  }
  // The only place that exceptions of yaml-cpp reach.
  try {
    return MetadataParser(path).Parse(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        error.mark.is_null()
            ? absl::StrCat(path, ": ", error.msg)
            : absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace hearth::ingest
