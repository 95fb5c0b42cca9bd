#include "engine/ingest/formats/graphbolt.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/fused_csc.h"
#include "engine/ingest/formats/graphbolt_nodes.h"
#include "engine/ingest/formats/metadata_yaml.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/io/whole_file.h"

namespace hearth::ingest {
namespace {

constexpr char kYamlFile[] = "metadata.yaml";
constexpr char kPreprocessed[] = "preprocessed";

absl::Status Invalid(const std::string& where, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", problem));
}

absl::StatusOr<MetadataYaml> ReadYaml(io::FileSystem& files,
                                      const std::string& folder) {
  const std::string path = io::JoinPath(folder, kYamlFile);
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(files, path, kMaxMetadataBytes));
  return ParseMetadataYaml(text, path);
}

/// The yaml to read, and the folder that its paths are relative to.
struct Description {
  std::string folder;
  std::string path;
  MetadataYaml yaml;
};

/// Whether all edges of a raw dataset are there.
absl::StatusOr<bool> HasEdges(io::FileSystem& files, const Description& raw) {
  for (const MetadataEdges& edges : raw.yaml.edges) {
    HEARTH_ASSIGN_OR_RETURN(
        const bool found,
        Exists(files, io::JoinPath(raw.folder, edges.file.path)));
    if (!found) return false;
  }
  return raw.yaml.has_graph;
}

absl::StatusOr<Description> FindDescription(io::FileSystem& files,
                                            const std::string& source) {
  const std::string folder(absl::StripSuffix(source, "/"));
  const std::string preprocessed = io::JoinPath(folder, kPreprocessed);
  HEARTH_ASSIGN_OR_RETURN(const bool has_own,
                          Exists(files, io::JoinPath(folder, kYamlFile)));
  HEARTH_ASSIGN_OR_RETURN(const bool has_preprocessed,
                          Exists(files, io::JoinPath(preprocessed, kYamlFile)));
  if (!has_own && !has_preprocessed) {
    return Invalid(source, "has no metadata.yaml");
  }
  Description own{folder, io::JoinPath(folder, kYamlFile), {}};
  if (has_own) {
    HEARTH_ASSIGN_OR_RETURN(own.yaml, ReadYaml(files, folder));
    if (own.yaml.topology_path.has_value()) {
      own.folder = io::ParentDirectory(folder);
      return own;
    }
    HEARTH_ASSIGN_OR_RETURN(const bool has_edges, HasEdges(files, own));
    // If neither is complete, messages name the missing raw edges.
    if (has_edges || !has_preprocessed) return own;
  }
  Description made{folder, io::JoinPath(preprocessed, kYamlFile), {}};
  HEARTH_ASSIGN_OR_RETURN(made.yaml, ReadYaml(files, preprocessed));
  return made;
}

absl::StatusOr<std::vector<SourceNodes>> RawNodes(const Description& raw) {
  std::vector<SourceNodes> nodes;
  for (const MetadataNodes& some : raw.yaml.nodes) {
    SourceNodes type;
    type.num_nodes = some.num;
    if (!some.type.empty()) type.type = some.type;
    if (some.type.empty() && raw.yaml.nodes.size() > 1) {
      return Invalid(raw.path, "has several entries of nodes, one untyped");
    }
    nodes.push_back(std::move(type));
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const SourceNodes& a, const SourceNodes& b) {
              return a.type < b.type;
            });
  return nodes;
}

absl::StatusOr<SourceEdges> RawEdges(ImportContext& context,
                                     const std::string& folder,
                                     const SourceGraph& graph,
                                     const MetadataEdges& entry) {
  std::optional<SourceEdges> edges =
      entry.type.empty() ? SourceEdges() : EdgesOfType(entry.type);
  if (!edges.has_value()) {
    return Invalid(entry.place,
                   absl::StrCat("type is \"", absl::CEscape(entry.type),
                                "\"; source:relation:destination is needed"));
  }
  EdgeEnds ends;
  for (const auto& [type, count] :
       {std::pair(&edges->source_type, &ends.num_sources),
        std::pair(&edges->destination_type, &ends.num_destinations)}) {
    const SourceNodes* const nodes = graph.FindNodes(*type);
    if (nodes == nullptr) {
      return Invalid(
          entry.place,
          absl::StrCat("joins nodes of type \"", absl::CEscape(*type),
                       "\", which the graph does not have"));
    }
    *count = nodes->num_nodes;
  }
  const std::string path = io::JoinPath(folder, entry.file.path);
  if (entry.file.format == MetadataFile::Format::kCsv) {
    HEARTH_ASSIGN_OR_RETURN(edges->edges, ReadCsvEdges(context, path, ends));
    return *std::move(edges);
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                          ArrayReader::OpenNpy(context.files(), path));
  HEARTH_ASSIGN_OR_RETURN(
      edges->edges,
      NewArrayEdgeSource(std::move(array), ends, EdgeShape::kRows));
  return *std::move(edges);
}

absl::Status OpenRaw(ImportContext& context, const Description& raw,
                     SourceGraph& graph) {
  HEARTH_ASSIGN_OR_RETURN(graph.nodes, RawNodes(raw));
  for (const MetadataEdges& entry : raw.yaml.edges) {
    HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                            RawEdges(context, raw.folder, graph, entry));
    graph.edges.push_back(std::move(edges));
  }
  std::sort(graph.edges.begin(), graph.edges.end(),
            [](const SourceEdges& a, const SourceEdges& b) {
              return a.type < b.type;
            });
  return absl::OkStatus();
}

absl::Status OpenPreprocessed(ImportContext& context, const Description& made,
                              SourceGraph& graph) {
  if (!made.yaml.topology_path.has_value()) {
    return Invalid(made.path, "has neither a graph nor a graph_topology");
  }
  HEARTH_ASSIGN_OR_RETURN(
      FusedCsc csc,
      OpenFusedCsc(context.files(),
                   io::JoinPath(made.folder, *made.yaml.topology_path)));
  for (const std::string& name : csc.attributes) {
    graph.warnings.push_back(absl::StrCat(
        "the graph's attribute \"", absl::CEscape(name), "\" is left out"));
  }
  graph.nodes = NodesOf(csc);
  HEARTH_ASSIGN_OR_RETURN(graph.edges, EdgesOf(context, std::move(csc)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RecognizeGraphBolt(io::FileSystem& files,
                                               const std::string& source) {
  for (const std::string& folder :
       {source, io::JoinPath(source, kPreprocessed)}) {
    HEARTH_ASSIGN_OR_RETURN(const bool found,
                            Exists(files, io::JoinPath(folder, kYamlFile)));
    if (found) return absl::StrCat("it has ", kYamlFile);
  }
  return "";
}

absl::StatusOr<SourceGraph> OpenGraphBolt(ImportContext& context,
                                          const std::string& source,
                                          const GraphBoltOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(const Description found,
                          FindDescription(context.files(), source));
  SourceGraph graph;
  const bool is_raw = found.yaml.has_graph;
  graph.transforms.push_back(
      absl::StrCat("read from ", is_raw ? "the raw dataset" : kPreprocessed));
  HEARTH_RETURN_IF_ERROR(is_raw ? OpenRaw(context, found, graph)
                                : OpenPreprocessed(context, found, graph));
  // Types are checked first: the steps below look up nodes by type.
  HEARTH_RETURN_IF_ERROR(graph.CheckTypes(found.path));
  HEARTH_RETURN_IF_ERROR(
      OpenGraphBoltNodes(context, found.folder, found.yaml, options, graph));
  return graph;
}

}  // namespace hearth::ingest
