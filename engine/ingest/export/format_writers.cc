#include "engine/ingest/export/format_writers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_output.h"
#include "engine/ingest/export/torch_writer.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {

namespace {

constexpr std::array<const char*, 3> kSplitFiles = {
    "train_idx.npy", "valid_idx.npy", "test_idx.npy"};

absl::Status WriteNumpyLabels(ImportContext& context, SourceNodes& nodes,
                              OutputFolder& folder) {
  const char* path = "node_label.npy";
  ArrayReader& labels = *nodes.labels;
  const store::LabelKind kind = KindOfLabels(labels.header(), nodes.label_kind);
  if (kind == store::LabelKind::kClasses) {
    return WriteLabelNpy(context, folder, labels,
                         {path, store::DType::kInt64, {nodes.num_nodes}});
  }
  const int64_t width = labels.header().NumElements() / nodes.num_nodes;
  const NpyFile file{path, store::DType::kFloat32, {nodes.num_nodes, width}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return ForEachLabelRowBlock(context, labels, kind,
                                [&](absl::Span<const float> rows) {
                                  return sink.AppendValues<float>(rows);
                                });
  });
}

absl::Status WriteNumpyEdges(ImportContext& context, SourceEdges& edges,
                             OutputFolder& folder) {
  if (edges.edges != nullptr) {
    return WriteEdgeNpy(context, folder, *edges.edges, "edge_index.npy");
  }
  HEARTH_RETURN_IF_ERROR(
      WriteIntegerNpy(context, folder, *edges.indptr, "indptr.npy"));
  return WriteIntegerNpy(context, folder, *edges.indices, "indices.npy");
}

}  // namespace

absl::Status WriteNumpyFolder(ImportContext& context, SourceGraph& graph,
                              const std::string& destination) {
  NeededParts needed;
  needed.any_label_kind = true;
  needed.whole_split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "numpy", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  SourceNodes& nodes = graph.nodes[0];
  context.Begin("labels", 0);
  HEARTH_RETURN_IF_ERROR(WriteNumpyLabels(context, nodes, *folder));
  for (size_t i = 0; i < kSplitFiles.size(); ++i) {
    if (nodes.split[i] == nullptr) continue;
    HEARTH_RETURN_IF_ERROR(
        WriteIntegerNpy(context, *folder, *nodes.split[i], kSplitFiles[i]));
  }
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteNumpyEdges(context, graph.edges[0], *folder));
  context.Begin("features", 0);
  HEARTH_RETURN_IF_ERROR(
      WriteFeatureNpy(context, *folder, *nodes.features, "node_feat.npy"));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           const std::string& destination) {
  NeededParts needed;
  needed.features = false;
  needed.labels = false;
  needed.split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "edge-list", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                          folder->NewSink("edges.txt"));
  const EdgeList edges(graph.edges[0]);
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(
      sink->AppendText(absl::StrCat("# Nodes: ", graph.nodes[0].num_nodes,
                                    " Edges: ", edges->num_edges(), "\n")));
  std::string lines;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
        lines.clear();
        for (size_t i = 0; i < block.size(); ++i) {
          absl::StrAppend(&lines, block.sources[i], "\t", block.destinations[i],
                          "\n");
        }
        return sink->AppendText(lines);
      }));
  HEARTH_RETURN_IF_ERROR(sink->Finish());
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

namespace {

using Json = nlohmann::ordered_json;

constexpr char kSplitFile[] = "split_idx.pth";

absl::Status WriteRaw(OutputFolder& folder, const std::string& path,
                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                          folder.NewSink(path));
  HEARTH_RETURN_IF_ERROR(write(*sink));
  return sink->Finish();
}

absl::Status WriteGinexConf(OutputFolder& folder, const SourceNodes& nodes,
                            const SourceEdges& edges, int64_t num_classes) {
  Json conf;
  conf["num_nodes"] = nodes.num_nodes;
  conf["indptr_shape"] = edges.indptr->header().shape;
  conf["indptr_dtype"] = "int64";
  conf["indices_shape"] = edges.indices->header().shape;
  conf["indices_dtype"] = "int64";
  conf["features_shape"] = nodes.features->header().shape;
  conf["features_dtype"] = "float32";
  conf["labels_shape"] = {nodes.num_nodes, 1};
  conf["labels_dtype"] = "float32";
  conf["num_classes"] = num_classes;
  return folder.WriteText("conf.json", conf.dump());
}

absl::Status WriteDiskGnnConf(OutputFolder& folder, const SourceNodes& nodes,
                              int64_t num_classes) {
  const store::DType dtype = StoredType(nodes.features->header());
  Json conf;
  conf["total_num_nodes"] = nodes.num_nodes;
  conf["num_nodes"] = nodes.num_nodes;
  conf["features_shape"] = nodes.features->header().shape;
  conf["features_dtype"] = absl::StrCat("torch.", Name(dtype));
  conf["feat_itemsize"] = store::SizeOf(dtype);
  conf["labels_shape"] = {nodes.num_nodes};
  conf["labels_dtype"] = "torch.float32";
  conf["num_classes"] = num_classes;
  conf["label_offset"] = 0;
  return folder.WriteText("conf.json", conf.dump());
}

/// Opens the folder for a format that needs all arrays, and edges in CSC.
absl::StatusOr<std::unique_ptr<OutputFolder>> Prepare(
    ImportContext& context, SourceGraph& graph, const char* format,
    const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, format));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  SourceEdges& edges = graph.edges[0];
  HEARTH_RETURN_IF_ERROR(CompressEdges(context, graph.EndsOf(edges), edges));
  return folder;
}

}  // namespace

absl::Status WriteGinex(ImportContext& context, SourceGraph& graph,
                        const std::string& destination) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          Prepare(context, graph, "ginex", destination));
  SourceNodes& nodes = graph.nodes[0];
  SourceEdges& edges = graph.edges[0];
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *nodes.labels));
  HEARTH_RETURN_IF_ERROR(WriteGinexConf(*folder, nodes, edges, num_classes));
  HEARTH_RETURN_IF_ERROR(WriteTorchSplit(context, nodes, *folder, kSplitFile));
  HEARTH_RETURN_IF_ERROR(WriteRaw(*folder, "labels.dat", [&](ByteSink& sink) {
    return WriteLabels(context, *nodes.labels, store::DType::kFloat32, sink);
  }));
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteRaw(*folder, "indptr.dat", [&](ByteSink& sink) {
    return WriteIntegers(context, *edges.indptr, store::DType::kInt64, sink);
  }));
  HEARTH_RETURN_IF_ERROR(WriteRaw(*folder, "indices.dat", [&](ByteSink& sink) {
    return WriteIntegers(context, *edges.indices, store::DType::kInt64, sink);
  }));
  context.Begin("features", 0);
  HEARTH_RETURN_IF_ERROR(WriteRaw(*folder, "features.dat", [&](ByteSink& sink) {
    return WriteFeatures(context, *nodes.features, store::DType::kFloat32,
                         sink);
  }));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

absl::Status WriteDiskGnn(ImportContext& context, SourceGraph& graph,
                          const std::string& destination) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          Prepare(context, graph, "diskgnn", destination));
  SourceNodes& nodes = graph.nodes[0];
  SourceEdges& edges = graph.edges[0];
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *nodes.labels));
  HEARTH_RETURN_IF_ERROR(WriteDiskGnnConf(*folder, nodes, num_classes));
  HEARTH_RETURN_IF_ERROR(WriteTorchSplit(context, nodes, *folder, kSplitFile));
  const TensorOutput labels = {
      "labels", store::DType::kFloat32, {nodes.num_nodes}, [&](ByteSink& sink) {
        return WriteLabels(context, *nodes.labels, store::DType::kFloat32,
                           sink);
      }};
  HEARTH_RETURN_IF_ERROR(WriteTorchTensor(*folder, "labels.pth", labels));
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteFusedCscGraph(
      *folder, "graph.pth",
      {IntegerTensor(context, "indptr", store::DType::kInt64, *edges.indptr),
       IntegerTensor(context, "indices", IndexType(nodes.num_nodes),
                     *edges.indices)}));
  context.Begin("features", 0);
  HEARTH_RETURN_IF_ERROR(WriteRaw(*folder, "features.bin", [&](ByteSink& sink) {
    return WriteFeatures(context, *nodes.features,
                         StoredType(nodes.features->header()), sink);
  }));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr std::array<const char*, 3> kSets = {"train_set", "validation_set",
                                              "test_set"};

/// Looks up labels at ascending nodes, reading block by block.
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
  /// A unique path "FOLDER/TYPE_WHAT", with characters replaced that are unfit
  /// for file names.
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

  /// `entry` with its type if the graph is a heterograph.
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

  /// Writes all labels as a feature: the sets of a task have labels of their
  /// own nodes only.
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
