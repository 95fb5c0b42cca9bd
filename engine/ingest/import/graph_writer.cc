#include "engine/ingest/import/graph_writer.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/id_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/split_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/row_source.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {
namespace {

std::string BaseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
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
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    place_ = places_[i];
    HEARTH_RETURN_IF_ERROR(
        WriteFeatures(graph.nodes[i], manifest_.node_types[i]));
  }
  for (const FeatureFill& fill : additions.fills) {
    place_ = places_[fill.node_type];
    HEARTH_RETURN_IF_ERROR(FillFeatures(fill));
  }
  return std::move(manifest_);
}

store::ArrayPlace GraphWriter::NewPlace(const std::string& type) {
  return {folder_, options_.name, prefixes_.New(type)};
}

absl::Status GraphWriter::WriteNodes(SourceNodes& nodes) {
  store::NodeTypeEntry entry;
  entry.name = nodes.type;
  entry.num_nodes = nodes.num_nodes;
  place_ = NewPlace(nodes.type);
  HEARTH_RETURN_IF_ERROR(WriteLabels(nodes, entry));
  HEARTH_RETURN_IF_ERROR(WriteSplit(nodes, entry));
  HEARTH_RETURN_IF_ERROR(WriteIds(nodes, entry));
  places_.push_back(place_);
  manifest_.node_types.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteLabels(SourceNodes& nodes,
                                      store::NodeTypeEntry& entry) {
  uint64_t elements = 0;
  if (nodes.labels != nullptr) {
    elements = static_cast<uint64_t>(nodes.labels->header().NumElements());
  }
  for (const auto& part : nodes.split) {
    if (part == nullptr) continue;
    elements += static_cast<uint64_t>(part->header().shape[0]);
  }
  context_.Begin("labels", elements * sizeof(int64_t));
  if (nodes.labels == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      ImportedLabels labels,
      ImportLabels(context_, *nodes.labels, nodes.label_kind, place_));
  entry.label_kind = labels.kind;
  entry.label_width = labels.width;
  entry.labels = Take(std::move(labels.array));
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteSplit(SourceNodes& nodes,
                                     store::NodeTypeEntry& entry) {
  const std::array<std::pair<store::ArrayFile*, const char*>, 3> parts = {
      {{&entry.train, "train"},
       {&entry.valid, "valid"},
       {&entry.test, "test"}}};
  std::vector<SplitPart> done;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (nodes.split[i] == nullptr) continue;
    HEARTH_ASSIGN_OR_RETURN(
        SplitPart part,
        ReadSplitPart(context_, *nodes.split[i], nodes.num_nodes, done));
    HEARTH_ASSIGN_OR_RETURN(
        store::FinishedArray array,
        WriteSplitPart(context_, part, place_, parts[i].second));
    *parts[i].first = Take(std::move(array));
    if (!part.was_sorted) Record(absl::StrCat(part.name, ": sorted"));
    done.push_back(std::move(part));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteIds(SourceNodes& nodes,
                                   store::NodeTypeEntry& entry) {
  if (nodes.ids != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array,
                            CopyIds(context_, *nodes.ids, place_));
    entry.ids = Take(std::move(array));
  }
  if (nodes.id_text != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        store::FinishedArray array,
        CopyIdText(context_, *nodes.id_text, nodes.num_nodes, place_));
    entry.id_text = Take(std::move(array));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteTopology(SourceEdges& edges,
                                        const EdgeEnds& ends) {
  store::EdgeTypeEntry entry;
  entry.name = edges.type;
  entry.source_type = edges.source_type;
  entry.destination_type = edges.destination_type;
  place_ = NewPlace(edges.type);
  HEARTH_ASSIGN_OR_RETURN(
      ImportedEdges imported,
      ImportEdges(context_, edges, ends, options_.edges, place_));
  for (std::string& done : imported.transforms) Record(std::move(done));
  AddTopology(std::move(entry), std::move(imported.arrays));
  return absl::OkStatus();
}

absl::Status GraphWriter::WriteReverse(const ReverseType& type,
                                       const EdgeEnds& ends) {
  const store::EdgeTypeEntry& forward = manifest_.edge_types[type.edge_type];
  store::EdgeTypeEntry entry;
  entry.name = type.name;
  entry.source_type = forward.destination_type;
  entry.destination_type = forward.source_type;
  place_ = NewPlace(type.name);
  HEARTH_ASSIGN_OR_RETURN(
      CscArrays arrays,
      ReverseWritten(context_, folder_, forward, ends, place_));
  Record(absl::StrCat(type.name, ": added, the reverse of ", forward.name));
  AddTopology(std::move(entry), std::move(arrays));
  return absl::OkStatus();
}

void GraphWriter::AddTopology(store::EdgeTypeEntry entry, CscArrays arrays) {
  entry.num_edges = arrays.indices.file.shape[0];
  entry.indptr = Take(std::move(arrays.indptr));
  entry.indices = Take(std::move(arrays.indices));
  manifest_.edge_types.push_back(std::move(entry));
}

absl::Status GraphWriter::WriteFeatures(SourceNodes& nodes,
                                        store::NodeTypeEntry& entry) {
  feature_scans_.emplace_back();
  if (nodes.features == nullptr) return absl::OkStatus();
  ArrayReader& features = *nodes.features;
  const std::string name = BaseName(features.path());
  HEARTH_ASSIGN_OR_RETURN(
      feature_scans_.back(),
      LabeledFeatureScan::Create(context_.files(), folder_, entry,
                                 StoredType(features.header()),
                                 features.header().shape[1]));
  const FeatureChoices choices{options_.non_finite,
                               [this](const RowBlock& rows) {
                                 return feature_scans_.back()->Add(rows);
                               }};
  if (options_.in_place) {
    HEARTH_ASSIGN_OR_RETURN(const std::string path,
                            context_.files().RealPath(features.path()));
    HEARTH_ASSIGN_OR_RETURN(
        store::FinishedArray array,
        RegisterFeatures(context_, features, choices, path, place_));
    entry.features = Take(std::move(array));
    Record(absl::StrCat(name, ": used in place"));
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(ImportedFeatures imported,
                          CopyFeatures(context_, features, choices, place_));
  entry.features = Take(std::move(imported.array));
  if (imported.num_zeroed > 0) {
    Record(absl::StrCat(imported.num_zeroed, " values of ", name,
                        " that were NaN or infinite became 0"));
  }
  if (features.header().fortran_order) {
    Record(absl::StrCat(name, ": Fortran order to C order"));
  }
  if (features.header().type.item_bytes > 4) {
    Record(absl::StrCat(name, ": float64 to float32"));
  }
  return absl::OkStatus();
}

absl::Status GraphWriter::FillFeatures(const FeatureFill& fill) {
  store::NodeTypeEntry& entry = manifest_.node_types[fill.node_type];
  std::unique_ptr<LabeledFeatureScan>& scan = feature_scans_[fill.node_type];
  HEARTH_ASSIGN_OR_RETURN(
      scan, LabeledFeatureScan::Create(context_.files(), folder_, entry,
                                       fill.dtype, fill.num_columns));
  HEARTH_ASSIGN_OR_RETURN(
      store::FinishedArray array,
      WriteFill(
          context_, manifest_, fill,
          [&scan](const RowBlock& rows) { return scan->Add(rows); }, place_));
  entry.features = Take(std::move(array));
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
  Record(std::move(told));
  return absl::OkStatus();
}

store::ArrayFile GraphWriter::Take(store::FinishedArray array) {
  checksums_.push_back(std::move(array.checksums_sha256));
  return std::move(array.file);
}

void GraphWriter::Record(std::string transform) {
  manifest_.transforms.push_back(std::move(transform));
}

}  // namespace hearth::ingest
