#include "engine/ingest/export/paper_writers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_output.h"
#include "engine/ingest/export/torch_writer.h"
#include "engine/ingest/formats/ogb.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};

/// Writes a file NAME.csv.gz, whose text `write` appends.
absl::Status WriteCsv(OutputFolder& folder, const std::string& name,
                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> file,
                          folder.NewSink(absl::StrCat(name, ".csv.gz")));
  const std::unique_ptr<ByteSink> sink = NewGzipSink(std::move(file));
  HEARTH_RETURN_IF_ERROR(write(*sink));
  return sink->Finish();
}

absl::Status WriteCount(OutputFolder& folder, const std::string& name,
                        int64_t count) {
  return WriteCsv(folder, name, [&](ByteSink& sink) {
    return sink.AppendText(absl::StrCat(count, "\n"));
  });
}

absl::Status AppendLines(absl::Span<const int64_t> values, ByteSink& sink) {
  std::string lines;
  for (const int64_t value : values) absl::StrAppend(&lines, value, "\n");
  return sink.AppendText(lines);
}

absl::Status WriteIds(ImportContext& context, ArrayReader& ids,
                      ByteSink& sink) {
  const int64_t count = ids.header().NumElements();
  std::vector<int64_t> block;
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(ids.ReadInts(first, absl::MakeSpan(block)));
    HEARTH_RETURN_IF_ERROR(AppendLines(block, sink));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

void AppendFloat(float value, std::string& text) {
  std::array<char, 32> digits;
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end);
}

/// Appends whole rows, with commas between their values.
absl::Status AppendRows(absl::Span<const float> values, size_t columns,
                        ByteSink& sink) {
  std::string lines;
  for (size_t i = 0; i < values.size(); ++i) {
    AppendFloat(values[i], lines);
    lines.push_back((i + 1) % columns == 0 ? '\n' : ',');
  }
  return sink.AppendText(lines);
}

absl::Status WriteLabelLines(ImportContext& context, SourceNodes& nodes,
                             ByteSink& sink) {
  ArrayReader& labels = *nodes.labels;
  const store::LabelKind kind = KindOfLabels(labels.header(), nodes.label_kind);
  if (kind == store::LabelKind::kClasses) {
    return ForEachLabelBlock(context, labels,
                             [&](absl::Span<const int64_t> block) {
                               return AppendLines(block, sink);
                             });
  }
  const auto columns =
      static_cast<size_t>(labels.header().NumElements() / nodes.num_nodes);
  return ForEachLabelRowBlock(context, labels, kind,
                              [&](absl::Span<const float> rows) {
                                return AppendRows(rows, columns, sink);
                              });
}

absl::Status WriteLabelsAndSplit(ImportContext& context, SourceNodes& nodes,
                                 OutputFolder& folder) {
  context.Begin("labels", 0);
  HEARTH_RETURN_IF_ERROR(WriteCsv(
      folder, "raw/node-label",
      [&](ByteSink& sink) { return WriteLabelLines(context, nodes, sink); }));
  for (size_t i = 0; i < kParts.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(WriteCsv(
        folder, absl::StrCat("split/given/", kParts[i]), [&](ByteSink& sink) {
          return WriteIds(context, *nodes.split[i], sink);
        }));
  }
  return WriteCount(folder, "raw/num-node-list", nodes.num_nodes);
}

absl::Status WriteOgbEdges(ImportContext& context, SourceEdges& source,
                           OutputFolder& folder) {
  const EdgeList edges(source);
  context.Begin("edges", 0);
  std::string lines;
  HEARTH_RETURN_IF_ERROR(WriteCsv(folder, "raw/edge", [&](ByteSink& sink) {
    return ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
      lines.clear();
      for (size_t i = 0; i < block.size(); ++i) {
        absl::StrAppend(&lines, block.sources[i], ",", block.destinations[i],
                        "\n");
      }
      return sink.AppendText(lines);
    });
  }));
  return WriteCount(folder, "raw/num-edge-list", edges->num_edges());
}

absl::Status WriteFeatureLines(ImportContext& context, ArrayReader& features,
                               ByteSink& sink) {
  const auto columns = static_cast<size_t>(features.header().shape[1]);
  // Blocks are whole rows.
  const auto write = [&](int64_t, absl::Span<const float> values) {
    return AppendRows(values, columns, sink);
  };
  return ForEachFeatureBlock(context, features, write);
}

absl::Status CheckOgb(const SourceGraph& graph,
                      const std::string& destination) {
  NeededParts needed;
  needed.features = false;
  needed.any_label_kind = true;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "ogb", needed));
  if (graph.edges[0].num_edges() == 0) {
    return absl::InvalidArgumentError(
        "the graph has no edges; the format ogb needs them");
  }
  if (!OgbAddsInverseEdges(destination)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(destination,
                   ": in the format ogb, to a folder of this name the inverse "
                   "of each edge is added when it is read; choose another"));
}

}  // namespace

absl::Status WriteOgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(CheckOgb(graph, destination));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  // The version that ogb looks for.
  HEARTH_RETURN_IF_ERROR(folder->WriteText("RELEASE_v1.txt", "v1\n"));
  SourceNodes& nodes = graph.nodes[0];
  HEARTH_RETURN_IF_ERROR(WriteLabelsAndSplit(context, nodes, *folder));
  HEARTH_RETURN_IF_ERROR(WriteOgbEdges(context, graph.edges[0], *folder));
  if (nodes.features != nullptr) {
    context.Begin("features", 0);
    HEARTH_RETURN_IF_ERROR(
        WriteCsv(*folder, "raw/node-feat", [&](ByteSink& sink) {
          return WriteFeatureLines(context, *nodes.features, sink);
        }));
  }
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

namespace {

constexpr char kFormat[] = "mag240m";
constexpr char kPaper[] = "paper";
/// Node types without features.
constexpr std::array<const char*, 2> kOthers = {"author", "institution"};

struct Relation {
  const char* source;
  const char* name;
  const char* destination;
};
constexpr std::array<Relation, 3> kRelations = {
    {{"author", "affiliated_with", "institution"},
     {"author", "writes", kPaper},
     {kPaper, "cites", kPaper}}};
constexpr size_t kCites = 2;

/// Parts of a graph, by their place in MAG240M.
struct Mag240mGraph {
  SourceNodes* papers = nullptr;
  std::array<int64_t, 2> num_others = {1, 1};
  /// Edges of each relation; null: none.
  std::array<SourceEdges*, 3> relations = {};
};

absl::Status Refused(absl::string_view what, const std::string& type) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has ", what, " of type \"", absl::Utf8SafeCEscape(type),
      "\"; the format ", kFormat, " has no place for them"));
}

absl::Status PlaceNodes(SourceNodes& nodes, Mag240mGraph& mag240m) {
  if (nodes.type == kPaper) {
    mag240m.papers = &nodes;
    return absl::OkStatus();
  }
  for (size_t i = 0; i < kOthers.size(); ++i) {
    if (nodes.type != kOthers[i]) continue;
    if (nodes.features != nullptr || nodes.labels != nullptr) {
      return Refused("features or labels of nodes", nodes.type);
    }
    mag240m.num_others[i] = nodes.num_nodes;
    return absl::OkStatus();
  }
  return Refused("nodes", nodes.type);
}

absl::Status PlaceEdges(SourceEdges& edges, Mag240mGraph& mag240m) {
  for (size_t i = 0; i < kRelations.size(); ++i) {
    const Relation& relation = kRelations[i];
    if (edges.source_type != relation.source ||
        edges.destination_type != relation.destination ||
        edges.type != absl::StrCat(relation.source, ":", relation.name, ":",
                                   relation.destination)) {
      continue;
    }
    mag240m.relations[i] = &edges;
    return absl::OkStatus();
  }
  return Refused("edges", edges.type);
}

absl::StatusOr<Mag240mGraph> FindMag240mGraph(SourceGraph& graph) {
  Mag240mGraph mag240m;
  if (graph.nodes.size() == 1 && graph.edges.size() == 1) {
    mag240m.papers = &graph.nodes[0];
    mag240m.relations[kCites] = &graph.edges[0];
    return mag240m;
  }
  for (SourceNodes& nodes : graph.nodes) {
    HEARTH_RETURN_IF_ERROR(PlaceNodes(nodes, mag240m));
  }
  for (SourceEdges& edges : graph.edges) {
    HEARTH_RETURN_IF_ERROR(PlaceEdges(edges, mag240m));
  }
  if (mag240m.papers != nullptr) return mag240m;
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has no papers; the format ", kFormat, " needs them"));
}

absl::Status WriteRelations(ImportContext& context, const Mag240mGraph& mag240m,
                            OutputFolder& folder) {
  for (size_t i = 0; i < kRelations.size(); ++i) {
    const Relation& relation = kRelations[i];
    const std::string path =
        absl::StrCat("processed/", relation.source, "___", relation.name, "___",
                     relation.destination, "/edge_index.npy");
    if (mag240m.relations[i] == nullptr) {
      HEARTH_RETURN_IF_ERROR(
          WriteNpy(folder, {path, store::DType::kInt64, {2, 0}},
                   [](ByteSink&) { return absl::OkStatus(); }));
      continue;
    }
    const EdgeList edges(*mag240m.relations[i]);
    HEARTH_RETURN_IF_ERROR(WriteEdgeNpy(context, folder, *edges, path));
  }
  return absl::OkStatus();
}

absl::Status WriteMag240mPapers(ImportContext& context,
                                const Mag240mGraph& mag240m,
                                OutputFolder& folder) {
  SourceNodes& papers = *mag240m.papers;
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *papers.labels));
  HEARTH_RETURN_IF_ERROR(WriteTorchCounts(folder, "meta.pt",
                                          {{kPaper, papers.num_nodes},
                                           {kOthers[0], mag240m.num_others[0]},
                                           {kOthers[1], mag240m.num_others[1]},
                                           {"num_classes", num_classes}}));
  HEARTH_RETURN_IF_ERROR(
      WriteTorchSplit(context, papers, folder, "split_dict.pt"));
  HEARTH_RETURN_IF_ERROR(WriteLabelNpy(context, folder, *papers.labels,
                                       {"processed/paper/node_label.npy",
                                        store::DType::kFloat32,
                                        {papers.num_nodes}}));
  context.Begin("features", 0);
  return WriteNpy(folder,
                  {"processed/paper/node_feat.npy", store::DType::kFloat16,
                   papers.features->header().shape},
                  [&](ByteSink& sink) {
                    return WriteFeatures(context, *papers.features,
                                         store::DType::kFloat16, sink);
                  });
}

}  // namespace

absl::Status WriteMag240m(ImportContext& context, SourceGraph& graph,
                          const std::string& destination) {
  NeededParts needed;
  needed.one_type = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, kFormat, needed));
  HEARTH_ASSIGN_OR_RETURN(const Mag240mGraph mag240m, FindMag240mGraph(graph));
  HEARTH_RETURN_IF_ERROR(CheckNodeParts(*mag240m.papers, kFormat));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_RETURN_IF_ERROR(WriteMag240mPapers(context, mag240m, *folder));
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteRelations(context, mag240m, *folder));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

namespace {

constexpr int64_t kFewClasses = 19;
constexpr int64_t kManyClasses = 2983;

absl::Status WriteIgbPapers(ImportContext& context, SourceNodes& papers,
                            OutputFolder& folder) {
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *papers.labels));
  if (num_classes > kManyClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", num_classes,
                     " classes; the format igb has up to ", kManyClasses));
  }
  HEARTH_RETURN_IF_ERROR(WriteLabelNpy(
      context, folder, *papers.labels,
      {num_classes > kFewClasses ? "processed/paper/node_label_2K.npy"
                                 : "processed/paper/node_label_19.npy",
       store::DType::kInt64,
       {papers.num_nodes}}));
  context.Begin("features", 0);
  return WriteNpy(folder,
                  {"processed/paper/node_feat.npy", store::DType::kFloat32,
                   papers.features->header().shape},
                  [&](ByteSink& sink) {
                    return WriteFeatures(context, *papers.features,
                                         store::DType::kFloat32, sink);
                  });
}

absl::Status WriteCitations(ImportContext& context, SourceEdges& citations,
                            OutputFolder& folder) {
  const EdgeList edges(citations);
  context.Begin("edges", 0);
  std::vector<int64_t> pairs;
  const auto write = [&](ByteSink& sink) {
    return ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
      pairs.resize(2 * block.size());
      for (size_t i = 0; i < block.size(); ++i) {
        pairs[2 * i] = block.sources[i];
        pairs[2 * i + 1] = block.destinations[i];
      }
      return sink.AppendValues<int64_t>(pairs);
    });
  };
  return WriteNpy(folder,
                  {"processed/paper__cites__paper/edge_index.npy",
                   store::DType::kInt64,
                   {edges->num_edges(), 2}},
                  write);
}

}  // namespace

absl::Status WriteIgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination) {
  NeededParts needed;
  needed.split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "igb", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_RETURN_IF_ERROR(WriteIgbPapers(context, graph.nodes[0], *folder));
  HEARTH_RETURN_IF_ERROR(WriteCitations(context, graph.edges[0], *folder));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
