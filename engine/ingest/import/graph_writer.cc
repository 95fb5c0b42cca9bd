#include "engine/ingest/import/graph_writer.h"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/node_import.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::ingest {
namespace {

constexpr char kLabels[] = "labels";
constexpr std::array<const char*, 3> kSplit = {"train", "valid", "test"};
constexpr char kIds[] = "ids";
constexpr char kIdText[] = "id_text";
constexpr char kIndptr[] = "indptr";
constexpr char kIndices[] = "indices";

void AddArray(ImportPart& part, std::string what, store::FinishedArray array) {
  part.arrays.push_back({std::move(what), std::move(array)});
}

void AddArrays(ImportPart& part, CscArrays arrays) {
  AddArray(part, kIndptr, std::move(arrays.indptr));
  AddArray(part, kIndices, std::move(arrays.indices));
}

/// Entry of the part's array `what`; empty if the part has no such array.
store::ArrayFile FileOf(const ImportPart& part, absl::string_view what) {
  for (const PartArray& array : part.arrays) {
    if (array.what == what) return array.array.file;
  }
  return store::ArrayFile();
}

}  // namespace

absl::StatusOr<store::Manifest> GraphWriter::Write(
    SourceGraph graph, const GraphAdditions& additions) {
  manifest_.transforms = graph.transforms;
  for (SourceNodes& nodes : graph.nodes) {
    HEARTH_RETURN_IF_ERROR(WriteNodes(nodes));
  }
  for (SourceEdges& edges : graph.edges) {
    HEARTH_RETURN_IF_ERROR(WriteTopology(edges, graph.EndsOf(edges)));
  }
  for (const ReverseType& type : additions.reverse_types) {
    HEARTH_RETURN_IF_ERROR(
        WriteReverse(type, graph.EndsOf(graph.edges[type.edge_type])));
  }
  scanned_features_.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].features == nullptr) continue;
    HEARTH_RETURN_IF_ERROR(AddFeatures(i, [&](ImportPart& part) {
      return MakeFeatures(graph.nodes[i], manifest_.node_types[i], part);
    }));
  }
  for (const FeatureFill& fill : additions.fills) {
    HEARTH_RETURN_IF_ERROR(AddFeatures(fill.node_type, [&](ImportPart& part) {
      return FillFeatures(fill, manifest_.node_types[fill.node_type], part);
    }));
  }
  return std::move(manifest_);
}

store::ArrayPlace GraphWriter::NewPlace(const std::string& type) {
  return {folder_, options_.name, prefixes_.New(type)};
}

absl::StatusOr<ImportPart> GraphWriter::FindOrMake(
    std::string name, absl::FunctionRef<absl::Status(ImportPart& part)> make) {
  std::optional<ImportPart> part = parts_.Take(name);
  if (!part.has_value()) {
    part.emplace().name = std::move(name);
    HEARTH_RETURN_IF_ERROR(make(*part));
    HEARTH_RETURN_IF_ERROR(parts_.Add(*part));
  }
  for (const PartArray& array : part->arrays) {
    checksums_.push_back(array.array.checksums_sha256);
  }
  manifest_.transforms.insert(manifest_.transforms.end(),
                              part->transforms.begin(), part->transforms.end());
  return *std::move(part);
}

absl::Status GraphWriter::WriteNodes(SourceNodes& nodes) {
  place_ = NewPlace(nodes.type);
  HEARTH_ASSIGN_OR_RETURN(
      const ImportPart part,
      FindOrMake(absl::StrCat("labels, split and ids of ", nodes.type),
                 [&](ImportPart& made) -> absl::Status {
                   HEARTH_RETURN_IF_ERROR(MakeLabels(nodes, made));
                   HEARTH_RETURN_IF_ERROR(MakeSplit(nodes, made));
                   return MakeIds(nodes, made);
                 }));
  store::NodeTypeEntry entry;
  entry.name = nodes.type;
  entry.num_nodes = nodes.num_nodes;
  entry.label_kind = part.label_kind;
  entry.label_width = part.label_width;
  entry.labels = FileOf(part, kLabels);
  entry.train = FileOf(part, kSplit[0]);
  entry.valid = FileOf(part, kSplit[1]);
  entry.test = FileOf(part, kSplit[2]);
  entry.ids = FileOf(part, kIds);
  entry.id_text = FileOf(part, kIdText);
  places_.push_back(place_);
  manifest_.node_types.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status GraphWriter::MakeLabels(SourceNodes& nodes, ImportPart& part) {
  uint64_t elements = 0;
  if (nodes.labels != nullptr) {
    elements = static_cast<uint64_t>(nodes.labels->header().NumElements());
  }
  for (const auto& ids : nodes.split) {
    if (ids == nullptr) continue;
    elements += static_cast<uint64_t>(ids->header().shape[0]);
  }
  context_.Begin("labels", elements * sizeof(int64_t));
  if (nodes.labels == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      ImportedLabels labels,
      ImportLabels(context_, *nodes.labels, nodes.label_kind, place_));
  part.label_kind = labels.kind;
  part.label_width = labels.width;
  if (labels.num_unknown > 0) {
    part.transforms.push_back(absl::StrCat(
        nodes.labels->name(), ": ", labels.num_unknown,
        " labels that are NaN, of labeled nodes, count neither in the loss nor "
        "in metrics"));
  }
  AddArray(part, kLabels, std::move(labels.array));
  return absl::OkStatus();
}

absl::Status GraphWriter::MakeSplit(SourceNodes& nodes, ImportPart& part) {
  std::vector<SplitPart> done;
  for (size_t i = 0; i < kSplit.size(); ++i) {
    if (nodes.split[i] == nullptr) continue;
    HEARTH_ASSIGN_OR_RETURN(
        SplitPart split,
        ReadSplitPart(context_, *nodes.split[i], nodes.split_is_mask[i],
                      nodes.num_nodes, done));
    if (split.num_nodes == 0) {
      if (i == 0) return nodes.split[i]->Error("is empty: nothing is trained");
      part.transforms.push_back(absl::StrCat(split.name, ": is empty"));
      continue;
    }
    HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array,
                            WriteSplitPart(context_, split, place_, kSplit[i]));
    AddArray(part, kSplit[i], std::move(array));
    if (!split.was_sorted) {
      part.transforms.push_back(absl::StrCat(split.name, ": sorted"));
    }
    done.push_back(std::move(split));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::MakeIds(SourceNodes& nodes, ImportPart& part) {
  if (nodes.ids != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array,
                            CopyIds(context_, *nodes.ids, place_));
    AddArray(part, kIds, std::move(array));
  }
  if (nodes.id_text != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        store::FinishedArray array,
        CopyIdText(context_, *nodes.id_text, nodes.num_nodes, place_));
    AddArray(part, kIdText, std::move(array));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteTopology(SourceEdges& edges,
                                        const EdgeEnds& ends) {
  store::EdgeTypeEntry entry;
  entry.name = edges.type;
  entry.source_type = edges.source_type;
  entry.destination_type = edges.destination_type;
  return AddTopology(std::move(entry), [&](ImportPart& part) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(
        ImportedEdges imported,
        ImportEdges(context_, edges, ends, options_.edges, place_));
    part.transforms = std::move(imported.transforms);
    AddArrays(part, std::move(imported.arrays));
    return absl::OkStatus();
  });
}

absl::Status GraphWriter::WriteReverse(const ReverseType& type,
                                       const EdgeEnds& ends) {
  const store::EdgeTypeEntry forward = manifest_.edge_types[type.edge_type];
  store::EdgeTypeEntry entry;
  entry.name = type.name;
  entry.source_type = forward.destination_type;
  entry.destination_type = forward.source_type;
  return AddTopology(std::move(entry), [&](ImportPart& part) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(
        CscArrays arrays,
        ReverseWritten(context_, folder_, forward, ends, place_));
    part.transforms.push_back(
        absl::StrCat(type.name, ": added, the reverse of ", forward.name));
    AddArrays(part, std::move(arrays));
    return absl::OkStatus();
  });
}

absl::Status GraphWriter::AddTopology(
    store::EdgeTypeEntry entry,
    absl::FunctionRef<absl::Status(ImportPart& part)> make) {
  place_ = NewPlace(entry.name);
  HEARTH_ASSIGN_OR_RETURN(
      const ImportPart part,
      FindOrMake(absl::StrCat("edges of ", entry.name), make));
  entry.indptr = FileOf(part, kIndptr);
  entry.indices = FileOf(part, kIndices);
  entry.num_edges = entry.indices.shape[0];
  manifest_.edge_types.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status GraphWriter::AddFeatures(
    size_t node_type, absl::FunctionRef<absl::Status(ImportPart& part)> make) {
  store::NodeTypeEntry& entry = manifest_.node_types[node_type];
  place_ = places_[node_type];
  HEARTH_ASSIGN_OR_RETURN(
      ImportPart part,
      FindOrMake(absl::StrCat("features of ", entry.name), make));
  entry.features = FileOf(part, kFeatures);
  scanned_features_[node_type] = std::move(part.scanned);
  return absl::OkStatus();
}

absl::Status GraphWriter::MakeFeatures(SourceNodes& nodes,
                                       const store::NodeTypeEntry& entry,
                                       ImportPart& part) {
  ArrayReader& features = *nodes.features;
  const std::string name = features.name();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<LabeledFeatureScan> scan,
      LabeledFeatureScan::Create(context_.files(), folder_, entry,
                                 StoredType(features.header()),
                                 features.header().shape[1]));
  const FeatureChoices choices{
      options_.non_finite,
      [&scan](const RowBlock& rows) { return scan->Add(rows); }};
  if (options_.in_place) {
    HEARTH_ASSIGN_OR_RETURN(const std::string path,
                            context_.files().RealPath(features.path()));
    HEARTH_ASSIGN_OR_RETURN(
        store::FinishedArray array,
        RegisterFeatures(context_, features, choices, path, place_));
    AddArray(part, kFeatures, std::move(array));
    part.transforms.push_back(absl::StrCat(name, ": used in place"));
    part.scanned = scan->scan().Result();
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(ImportedFeatures imported,
                          CopyFeatures(context_, features, choices, place_));
  AddArray(part, kFeatures, std::move(imported.array));
  part.scanned = scan->scan().Result();
  if (imported.num_zeroed > 0) {
    part.transforms.push_back(
        absl::StrCat(imported.num_zeroed, " values of ", name,
                     " that were NaN or infinite became 0"));
  }
  if (features.header().fortran_order) {
    part.transforms.push_back(absl::StrCat(name, ": Fortran order to C order"));
  }
  const std::string type = store::Name(features.header().type);
  const std::string stored(store::Name(StoredType(features.header())));
  if (type != stored) {
    part.transforms.push_back(absl::StrCat(name, ": ", type, " to ", stored));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::FillFeatures(const FeatureFill& fill,
                                       const store::NodeTypeEntry& entry,
                                       ImportPart& part) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<LabeledFeatureScan> scan,
      LabeledFeatureScan::Create(context_.files(), folder_, entry, fill.dtype,
                                 fill.num_columns));
  HEARTH_ASSIGN_OR_RETURN(
      store::FinishedArray array,
      WriteFill(
          context_, manifest_, fill,
          [&scan](const RowBlock& rows) { return scan->Add(rows); }, place_));
  AddArray(part, kFeatures, std::move(array));
  part.scanned = scan->scan().Result();
  const auto names = [this](const std::vector<size_t>& edge_types) {
    return absl::StrJoin(edge_types, ", ", [this](std::string* out, size_t i) {
      absl::StrAppend(out, manifest_.edge_types[i].name);
    });
  };
  std::string told = absl::StrCat(entry.name, ": features are the means over ",
                                  names(fill.edge_types));
  if (!fill.left_out.empty()) {
    absl::StrAppend(&told, "; other features lie at the ends of ",
                    names(fill.left_out));
  }
  part.transforms.push_back(std::move(told));
  return absl::OkStatus();
}

}  // namespace hearth::ingest
