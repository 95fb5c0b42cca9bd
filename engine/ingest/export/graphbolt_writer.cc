#include "engine/ingest/export/graphbolt_writer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/npy_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"
#include "engine/ingest/export/torch_writer.h"
#include "engine/ingest/import/feature_import.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBlockElements = 64 << 10;
constexpr std::array<const char*, 3> kSets = {"train_set", "validation_set",
                                              "test_set"};

/// Labels at ascending nodes, read block by block.
class LabelLookup {
 public:
  explicit LabelLookup(ArrayReader& labels) : labels_(labels) {}

  absl::StatusOr<int64_t> At(int64_t node) {
    const int64_t num_nodes = labels_.header().NumElements();
    if (node < 0 || node >= num_nodes) {
      return absl::InvalidArgumentError(
          absl::StrCat(labels_.path(), ": a part of the split has node ", node,
                       " of ", num_nodes));
    }
    if (node < first_ || node >= first_ + Count()) {
      first_ = node - node % kBlockElements;
      HEARTH_RETURN_IF_ERROR(
          ReadBlock(std::min(kBlockElements, num_nodes - first_)));
    }
    return block_[static_cast<size_t>(node - first_)];
  }

 private:
  int64_t Count() const { return static_cast<int64_t>(block_.size()); }

  absl::Status ReadBlock(int64_t count) {
    block_.resize(static_cast<size_t>(count));
    return ReadLabels(labels_, first_, absl::MakeSpan(block_));
  }

  ArrayReader& labels_;
  int64_t first_ = 0;
  std::vector<int64_t> block_;
};

class GraphBoltWriter {
 public:
  GraphBoltWriter(ImportContext& context, SourceGraph& graph,
                  OutputFolder& folder)
      : context_(context),
        graph_(graph),
        folder_(folder),
        typed_(graph.nodes.size() > 1 || graph.edges.size() > 1) {}

  absl::Status Write() {
    context_.Begin("labels", 0);
    HEARTH_RETURN_IF_ERROR(WriteTask());
    context_.Begin("edges", 0);
    HEARTH_RETURN_IF_ERROR(WriteGraph());
    context_.Begin("features", 0);
    HEARTH_RETURN_IF_ERROR(WriteFeatureData());
    HEARTH_RETURN_IF_ERROR(WriteAllLabels());
    const Json metadata = {{"graph", graph_entry_},
                           {"feature_data", feature_data_},
                           {"tasks", Json::array({task_})}};
    // JSON is YAML.
    return folder_.WriteText("metadata.yaml",
                             absl::StrCat(metadata.dump(2), "\n"));
  }

 private:
  /// "FOLDER/TYPE_WHAT", with what no file name should have replaced, unique.
  std::string PathOf(absl::string_view folder, absl::string_view type,
                     absl::string_view what) {
    std::string name;
    if (typed_) {
      for (const char c : type) {
        const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c));
        name.push_back(plain ? c : '_');
      }
    }
    absl::StrAppend(&name, typed_ && !what.empty() ? "_" : "", what);
    const std::string base = absl::StrCat(folder, "/", name);
    std::string path = base;
    for (int i = 2; !paths_.insert(path).second; ++i) {
      path = absl::StrCat(base, "-", i);
    }
    return path;
  }

  /// `entry`, with its type in heterographs.
  Json Typed(const std::string& type, Json entry) const {
    if (typed_) entry["type"] = type;
    return entry;
  }

  static std::string EdgeTypeName(const SourceEdges& edges) {
    const std::string prefix = absl::StrCat(edges.source_type, ":");
    const std::string suffix = absl::StrCat(":", edges.destination_type);
    if (absl::StartsWith(edges.type, prefix) &&
        absl::EndsWith(edges.type, suffix) &&
        edges.type.size() > prefix.size() + suffix.size()) {
      return edges.type;
    }
    return absl::StrCat(prefix, edges.type, suffix);
  }

  absl::Status WriteGraph() {
    Json nodes = Json::array();
    for (const SourceNodes& some : graph_.nodes) {
      nodes.push_back(Typed(some.type, {{"num", some.num_nodes}}));
    }
    Json edges = Json::array();
    for (SourceEdges& some : graph_.edges) {
      const std::string type = EdgeTypeName(some);
      const std::string path =
          absl::StrCat(PathOf("edges", type, typed_ ? "" : "edge"), ".npy");
      const EdgeList list(some);
      HEARTH_RETURN_IF_ERROR(WriteEdgeNpy(context_, folder_, *list, path));
      edges.push_back(Typed(type, {{"format", "numpy"}, {"path", path}}));
    }
    graph_entry_ = {{"nodes", nodes}, {"edges", edges}};
    return absl::OkStatus();
  }

  absl::Status WriteFeatureData() {
    feature_data_ = Json::array();
    for (SourceNodes& nodes : graph_.nodes) {
      if (nodes.features == nullptr) continue;
      ArrayReader& features = *nodes.features;
      const store::DType dtype = StoredType(features.header());
      const bool torch = dtype == store::DType::kBFloat16;
      const std::string path = absl::StrCat(PathOf("data", nodes.type, "feat"),
                                            torch ? ".pt" : ".npy");
      HEARTH_RETURN_IF_ERROR(
          torch ? WriteTorchTensor(folder_, path,
                                   {"feat", dtype, features.header().shape,
                                    [&](ByteSink& sink) {
                                      return WriteFeatures(context_, features,
                                                           dtype, sink);
                                    }})
                : WriteFeatureNpy(context_, folder_, features, path));
      feature_data_.push_back(
          Typed(nodes.type, {{"domain", "node"},
                             {"name", "feat"},
                             {"format", torch ? "torch" : "numpy"},
                             {"in_memory", false},
                             {"path", path}}));
    }
    return absl::OkStatus();
  }

  /// Writes labels as a feature: the sets of a task have labels of their nodes
  /// alone.
  absl::Status WriteAllLabels() {
    for (SourceNodes& nodes : graph_.nodes) {
      if (nodes.labels == nullptr) continue;
      const std::string path =
          absl::StrCat(PathOf("data", nodes.type, "label"), ".npy");
      HEARTH_RETURN_IF_ERROR(
          WriteLabelNpy(context_, folder_, *nodes.labels,
                        {path, store::DType::kInt64, {nodes.num_nodes}}));
      feature_data_.push_back(Typed(nodes.type, {{"domain", "node"},
                                                 {"name", "label"},
                                                 {"format", "numpy"},
                                                 {"in_memory", true},
                                                 {"path", path}}));
    }
    return absl::OkStatus();
  }

  absl::Status WriteTask() {
    int64_t num_classes = 0;
    for (SourceNodes& nodes : graph_.nodes) {
      if (nodes.labels == nullptr) continue;
      HEARTH_ASSIGN_OR_RETURN(const int64_t count,
                              CountClasses(context_, *nodes.labels));
      num_classes = std::max(num_classes, count);
    }
    task_ = {{"name", "node_classification"}, {"num_classes", num_classes}};
    bool any = false;
    for (size_t i = 0; i < kSets.size(); ++i) {
      Json set = Json::array();
      for (SourceNodes& nodes : graph_.nodes) {
        if (nodes.split[i] == nullptr || nodes.labels == nullptr) continue;
        HEARTH_RETURN_IF_ERROR(WriteSet(nodes, i, set));
      }
      any = any || !set.empty();
      if (!set.empty()) task_[kSets[i]] = set;
    }
    if (any) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "the graph has no labels or no split; the format graphbolt needs them");
  }

  absl::Status WriteSet(SourceNodes& nodes, size_t part, Json& set) {
    ArrayReader& seeds = *nodes.split[part];
    const int64_t count = seeds.header().NumElements();
    const std::string base = PathOf("set", nodes.type, kSets[part]);
    const std::string seeds_path = absl::StrCat(base, "_seeds.npy");
    const std::string labels_path = absl::StrCat(base, "_labels.npy");
    HEARTH_RETURN_IF_ERROR(
        WriteIntegerNpy(context_, folder_, seeds, seeds_path));
    LabelLookup labels(*nodes.labels);
    const auto write = [&](ByteSink& sink) -> absl::Status {
      std::vector<int64_t> block;
      for (int64_t first = 0; first < count; first += kBlockElements) {
        block.resize(
            static_cast<size_t>(std::min(kBlockElements, count - first)));
        HEARTH_RETURN_IF_ERROR(seeds.ReadInts(first, absl::MakeSpan(block)));
        for (int64_t& value : block) {
          HEARTH_ASSIGN_OR_RETURN(value, labels.At(value));
        }
        HEARTH_RETURN_IF_ERROR(sink.AppendValues<int64_t>(block));
        HEARTH_RETURN_IF_ERROR(
            context_.Advance(block.size() * sizeof(int64_t)));
      }
      return absl::OkStatus();
    };
    HEARTH_RETURN_IF_ERROR(
        WriteNpy(folder_, {labels_path, store::DType::kInt64, {count}}, write));
    const auto data = [](const char* name, const std::string& path) {
      return Json{{"name", name}, {"format", "numpy"}, {"path", path}};
    };
    set.push_back(Typed(
        nodes.type, {{"data", Json::array({data("seeds", seeds_path),
                                           data("labels", labels_path)})}}));
    return absl::OkStatus();
  }

  ImportContext& context_;
  SourceGraph& graph_;
  OutputFolder& folder_;
  const bool typed_;
  std::set<std::string> paths_;
  Json graph_entry_;
  Json feature_data_;
  Json task_;
};

}  // namespace

absl::Status WriteGraphBolt(ImportContext& context, SourceGraph& graph,
                            const std::string& destination) {
  NeededParts needed;
  needed.one_type = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "graphbolt", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_RETURN_IF_ERROR(GraphBoltWriter(context, graph, *folder).Write());
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
