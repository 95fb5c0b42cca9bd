#include "engine/ingest/formats/ogb_csv.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

namespace {

constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};
constexpr char kSplitDict[] = "split_dict.pt";

absl::Status OpenCsvSplit(ImportContext& context, const std::string& folder,
                          SourceNodes& nodes) {
  for (size_t i = 0; i < kParts.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(const std::string path,
                            FindCsv(context.files(), folder, kParts[i]));
    HEARTH_ASSIGN_OR_RETURN(nodes.split[i], ReadTextIds(context, path));
  }
  return absl::OkStatus();
}

/// Opens a part of split_dict.pt: a dictionary of arrays by node type.
absl::Status OpenTypedPart(ImportContext& context, const TorchFile& file,
                           size_t part, SourceGraph& graph) {
  const PickleValue* value = file.root().Find(kParts[part]);
  const auto* dict = value == nullptr ? nullptr : value->As<PickleDict>();
  if (dict == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": has no dict \"", kParts[part], "\""));
  }
  for (const auto& [key, array] : dict->items) {
    const auto* type = key->As<std::string>();
    if (type == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": has ", key->KindName(), " in \"",
                       kParts[part], "\" where names of types are needed"));
    }
    HEARTH_ASSIGN_OR_RETURN(SourceNodes* const nodes,
                            FindType(graph, file.path(), *type));
    HEARTH_ASSIGN_OR_RETURN(nodes->split[part],
                            OpenTorchArray(context, file, *value, *type));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> HasSplitDict(io::FileSystem& files,
                                  const std::string& folder) {
  return Exists(files, io::JoinPath(folder, kSplitDict));
}

}  // namespace

absl::StatusOr<std::string> FindCsv(io::FileSystem& files,
                                    const std::string& folder,
                                    const std::string& name) {
  const std::string plain = io::JoinPath(folder, absl::StrCat(name, ".csv"));
  const std::string packed = absl::StrCat(plain, ".gz");
  HEARTH_ASSIGN_OR_RETURN(const bool has_packed, Exists(files, packed));
  if (has_packed) return packed;
  HEARTH_ASSIGN_OR_RETURN(const bool has_plain, Exists(files, plain));
  // For the message: the missing file is usually the packed one.
  return has_plain ? plain : packed;
}

absl::StatusOr<NamedValues> ReadNamedValues(ImportContext& context,
                                            const std::string& path) {
  NamedValues read;
  read.path = path;
  HEARTH_RETURN_IF_ERROR(ForEachLine(context, path, [&](const TextLines& line) {
    std::vector<absl::string_view> fields;
    SplitFields(line.line(), Separator::kComma, fields);
    if (fields.empty()) return line.Error("is empty");
    if (line.number() > 2) return line.Error("follows the values");
    std::vector<std::string>& row =
        line.number() == 1 ? read.names : read.values;
    for (const absl::string_view field : fields) row.emplace_back(field);
    if (line.number() == 1 || read.names.size() == read.values.size()) {
      return absl::OkStatus();
    }
    return line.Error(absl::StrCat("has ", read.values.size(), " values, ",
                                   read.names.size(), " are named"));
  }));
  if (!read.values.empty()) return read;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": needs a line of names and one of values"));
}

absl::StatusOr<std::vector<std::string>> ReadMarkedNames(
    ImportContext& context, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const NamedValues read,
                          ReadNamedValues(context, path));
  std::vector<std::string> marked;
  for (size_t i = 0; i < read.names.size(); ++i) {
    if (read.values[i] == "True") {
      marked.push_back(read.names[i]);
    } else if (read.values[i] != "False") {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": line 2, field ", i + 1, ": is not True or False"));
    }
  }
  return marked;
}

absl::StatusOr<std::string> FindSplitFolder(io::FileSystem& files,
                                            const std::string& source,
                                            const OgbOptions& options) {
  const std::string split = io::JoinPath(source, "split");
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, split));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> entries,
                          files.List(split));
  std::vector<std::string> names;
  for (const std::string& name : entries) {
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info,
                            files.Stat(io::JoinPath(split, name)));
    if (info.is_directory) names.push_back(name);
  }
  const bool is_known =
      std::find(names.begin(), names.end(), options.split) != names.end();
  if (is_known) return io::JoinPath(split, options.split);
  if (options.split.empty() && names.size() == 1) {
    return io::JoinPath(split, names[0]);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      split, ": has ", names.empty() ? "no splits" : absl::StrJoin(names, ", "),
      "; ",
      options.split.empty()
          ? "say which split to use"
          : absl::StrCat("there is no \"", absl::Utf8SafeCEscape(options.split),
                         "\"")));
}

absl::Status OpenSplit(ImportContext& context, const std::string& folder,
                       SourceNodes& nodes) {
  HEARTH_ASSIGN_OR_RETURN(const bool has_dict,
                          HasSplitDict(context.files(), folder));
  if (!has_dict) return OpenCsvSplit(context, folder, nodes);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> file,
      OpenTorchFile(context.files(), io::JoinPath(folder, kSplitDict)));
  for (size_t i = 0; i < kParts.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(
        nodes.split[i],
        OpenTorchArray(context, *file, file->root(), kParts[i]));
  }
  return absl::OkStatus();
}

absl::Status OpenTypedSplit(ImportContext& context, const std::string& folder,
                            SourceGraph& graph) {
  io::FileSystem& files = context.files();
  HEARTH_ASSIGN_OR_RETURN(const bool has_dict, HasSplitDict(files, folder));
  if (has_dict) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<TorchFile> file,
        OpenTorchFile(files, io::JoinPath(folder, kSplitDict)));
    for (size_t i = 0; i < kParts.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(OpenTypedPart(context, *file, i, graph));
    }
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          FindCsv(files, folder, "nodetype-has-split"));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                          ReadMarkedNames(context, path));
  for (const std::string& type : types) {
    HEARTH_ASSIGN_OR_RETURN(SourceNodes* const nodes,
                            FindType(graph, path, type));
    HEARTH_RETURN_IF_ERROR(
        OpenCsvSplit(context, io::JoinPath(folder, type), *nodes));
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceNodes*> FindType(SourceGraph& graph,
                                      const std::string& path,
                                      const std::string& type) {
  for (SourceNodes& nodes : graph.nodes) {
    if (nodes.type == type) return &nodes;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": names nodes of a type that there are none of"));
}

namespace {

// More types are taken for a mistake.
constexpr size_t kMaxTypes = 10'000;

/// Source type, relation, destination type.
using Triplet = std::array<std::string, 3>;

/// INVALID_ARGUMENT for a name that would lead out of its folder.
absl::Status CheckIsName(const std::string& path, const std::string& name) {
  const bool is_name = !name.empty() && name != "." && name != ".." &&
                       name.find('/') == std::string::npos &&
                       name.find('\0') == std::string::npos;
  if (is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has an entry of ", name.size(),
                   " bytes that is no name of nodes or edges"));
}

absl::Status AddNodes(ImportContext& context, const std::string& raw,
                      SourceGraph& graph) {
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          FindCsv(context.files(), raw, "num-node-dict"));
  HEARTH_ASSIGN_OR_RETURN(const NamedValues counts,
                          ReadNamedValues(context, path));
  if (counts.names.size() > kMaxTypes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", counts.names.size(), " node types; up to ",
                     kMaxTypes, " are read"));
  }
  for (size_t i = 0; i < counts.names.size(); ++i) {
    SourceNodes nodes;
    nodes.type = counts.names[i];
    HEARTH_RETURN_IF_ERROR(CheckIsName(path, nodes.type));
    if (!absl::SimpleAtoi(counts.values[i], &nodes.num_nodes) ||
        nodes.num_nodes < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": line 2, field ", i + 1, ": is no number of nodes"));
    }
    graph.nodes.push_back(std::move(nodes));
  }
  return absl::OkStatus();
}

absl::Status OpenFeatures(ImportContext& context, const std::string& raw,
                          SourceNodes& nodes) {
  if (nodes.num_nodes == 0) return absl::OkStatus();
  const std::string folder =
      io::JoinPath(io::JoinPath(raw, "node-feat"), nodes.type);
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          FindCsv(context.files(), folder, "node-feat"));
  HEARTH_ASSIGN_OR_RETURN(const bool found, Exists(context.files(), path));
  if (!found) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(nodes.features,
                          ReadTextFloats(context, path, nodes.num_nodes));
  return absl::OkStatus();
}

absl::Status OpenLabels(ImportContext& context, const std::string& raw,
                        SourceGraph& graph) {
  io::FileSystem& files = context.files();
  HEARTH_ASSIGN_OR_RETURN(const std::string marks,
                          FindCsv(files, raw, "nodetype-has-label"));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                          ReadMarkedNames(context, marks));
  for (const std::string& type : types) {
    HEARTH_ASSIGN_OR_RETURN(SourceNodes* const nodes,
                            FindType(graph, marks, type));
    if (nodes->num_nodes == 0) continue;
    HEARTH_ASSIGN_OR_RETURN(
        const std::string path,
        FindCsv(files, io::JoinPath(io::JoinPath(raw, "node-label"), type),
                "node-label"));
    HEARTH_ASSIGN_OR_RETURN(nodes->labels,
                            ReadTextLabels(context, path, nodes->num_nodes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Triplet>> ReadTriplets(ImportContext& context,
                                                  const std::string& path) {
  std::vector<Triplet> triplets;
  HEARTH_RETURN_IF_ERROR(ForEachLine(context, path, [&](const TextLines& line) {
    std::vector<absl::string_view> fields;
    SplitFields(line.line(), Separator::kComma, fields);
    if (fields.size() != 3) {
      return line.Error("needs a source, a relation and a destination");
    }
    if (triplets.size() == kMaxTypes) {
      return line.Error(
          absl::StrCat("is one more than the ", kMaxTypes, " that are read"));
    }
    Triplet triplet;
    for (size_t i = 0; i < fields.size(); ++i) {
      triplet[i] = std::string(fields[i]);
      HEARTH_RETURN_IF_ERROR(CheckIsName(path, triplet[i]));
    }
    triplets.push_back(std::move(triplet));
    return absl::OkStatus();
  }));
  return triplets;
}

absl::StatusOr<SourceEdges> OpenRelation(ImportContext& context,
                                         const std::string& raw,
                                         const Triplet& triplet,
                                         const SourceGraph& graph) {
  io::FileSystem& files = context.files();
  const std::string folder = io::JoinPath(io::JoinPath(raw, "relations"),
                                          absl::StrJoin(triplet, "___"));
  SourceEdges edges;
  edges.type = absl::StrJoin(triplet, ":");
  edges.source_type = triplet[0];
  edges.destination_type = triplet[2];
  HEARTH_ASSIGN_OR_RETURN(const std::string count,
                          FindCsv(files, folder, "num-edge-list"));
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_edges,
                          ReadTextCount(context, count, 0));
  HEARTH_ASSIGN_OR_RETURN(const std::string list,
                          FindCsv(files, folder, "edge"));
  HEARTH_ASSIGN_OR_RETURN(
      edges.edges,
      ReadTextEdges(context, list, graph.EndsOf(edges), num_edges));
  return edges;
}

/// Warns of data that is not imported: years of nodes, features of edges.
absl::Status WarnOfUnused(io::FileSystem& files, const std::string& raw,
                          const std::vector<Triplet>& triplets,
                          SourceGraph& graph) {
  for (const Triplet& triplet : triplets) {
    // Relations are numbered by their place in the list.
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files,
        io::JoinPath(io::JoinPath(raw, "relations"),
                     absl::StrJoin(triplet, "___")),
        {"edge.csv", "edge.csv.gz", "num-edge-list.csv", "num-edge-list.csv.gz",
         "edge_reltype.csv", "edge_reltype.csv.gz"},
        graph.warnings));
  }
  for (const SourceNodes& nodes : graph.nodes) {
    for (const char* what : {"node-feat", "node-label"}) {
      HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
          files, io::JoinPath(io::JoinPath(raw, what), nodes.type),
          {absl::StrCat(what, ".csv"), absl::StrCat(what, ".csv.gz")},
          graph.warnings));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SourceGraph> OpenOgbHeterogeneous(ImportContext& context,
                                                 const std::string& raw) {
  SourceGraph graph;
  HEARTH_RETURN_IF_ERROR(AddNodes(context, raw, graph));
  HEARTH_RETURN_IF_ERROR(OpenLabels(context, raw, graph));
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          FindCsv(context.files(), raw, "triplet-type-list"));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<Triplet> triplets,
                          ReadTriplets(context, path));
  for (const Triplet& triplet : triplets) {
    for (const size_t end : {0, 2}) {
      HEARTH_RETURN_IF_ERROR(FindType(graph, path, triplet[end]).status());
    }
    HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                            OpenRelation(context, raw, triplet, graph));
    graph.edges.push_back(std::move(edges));
  }
  for (SourceNodes& nodes : graph.nodes) {
    HEARTH_RETURN_IF_ERROR(OpenFeatures(context, raw, nodes));
  }
  HEARTH_RETURN_IF_ERROR(WarnOfUnused(context.files(), raw, triplets, graph));
  return graph;
}

}  // namespace hearth::ingest
