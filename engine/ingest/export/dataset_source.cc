#include "engine/ingest/export/dataset_source.h"

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ingest/export/unpacked_labels.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/array_header.h"
#include "engine/store/dtype.h"
#include "engine/store/label_kind.h"
#include "engine/store/manifest.h"
#include "engine/store/verified_file.h"

namespace hearth::ingest {
namespace {

store::ElementType TypeOf(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat32:
    case store::DType::kFloat16:
      return {store::ElementType::Kind::kFloat, store::SizeOf(dtype)};
    case store::DType::kBFloat16:
      return {store::ElementType::Kind::kBFloat, store::SizeOf(dtype)};
    case store::DType::kInt32:
    case store::DType::kInt64:
      return {store::ElementType::Kind::kInt, store::SizeOf(dtype)};
    case store::DType::kUint8:
      return {store::ElementType::Kind::kUint, store::SizeOf(dtype)};
  }
  return {};
}

/// Opens the arrays of a dataset; null for those that it lacks.
class ArrayOpener {
 public:
  ArrayOpener(io::FileSystem& files, const std::string& folder)
      : files_(files), folder_(folder) {}

  absl::Status Open(const store::ArrayFile& array,
                    std::unique_ptr<ArrayReader>& reader) const {
    if (array.path.empty()) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                            store::OpenVerifiedFile(files_, folder_, array));
    store::ArrayHeader header;
    header.type = TypeOf(array.dtype);
    header.shape = array.shape;
    header.data_offset = array.data_offset;
    HEARTH_ASSIGN_OR_RETURN(
        reader, ArrayReader::ReadRaw(std::move(file), std::move(header)));
    return absl::OkStatus();
  }

  /// Multi-label rows are bits on disk, which no other format knows.
  absl::Status OpenLabels(const store::NodeTypeEntry& entry,
                          std::unique_ptr<ArrayReader>& reader) const {
    const store::ArrayFile& labels = entry.labels;
    if (labels.path.empty() ||
        entry.label_kind != store::LabelKind::kMultiLabel) {
      return Open(labels, reader);
    }
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> bits,
                            store::OpenVerifiedFile(files_, folder_, labels));
    store::ArrayHeader header;
    header.type = TypeOf(store::DType::kFloat32);
    header.shape = {entry.num_nodes, entry.label_width};
    HEARTH_ASSIGN_OR_RETURN(
        reader, ArrayReader::ReadRaw(
                    NewUnpackedLabels(std::move(bits), labels.data_offset,
                                      entry.num_nodes, entry.label_width,
                                      store::HasPartialLabels(entry)),
                    std::move(header)));
    return absl::OkStatus();
  }

 private:
  io::FileSystem& files_;
  const std::string folder_;
};

absl::StatusOr<SourceNodes> OpenNodes(const ArrayOpener& opener,
                                      const store::NodeTypeEntry& entry) {
  SourceNodes nodes;
  nodes.type = entry.name;
  nodes.num_nodes = entry.num_nodes;
  if (!entry.labels.path.empty()) nodes.label_kind = entry.label_kind;
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.features, nodes.features));
  HEARTH_RETURN_IF_ERROR(opener.OpenLabels(entry, nodes.labels));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.train, nodes.split[0]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.valid, nodes.split[1]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.test, nodes.split[2]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.ids, nodes.ids));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.id_text, nodes.id_text));
  return nodes;
}

}  // namespace

absl::StatusOr<SourceGraph> OpenDatasetAsSource(io::FileSystem& files,
                                                const store::Dataset& dataset) {
  HEARTH_RETURN_IF_ERROR(dataset.CheckUnchanged());
  const ArrayOpener opener(files, dataset.path());
  SourceGraph graph;
  for (const store::NodeTypeEntry& entry : dataset.manifest().node_types) {
    HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes, OpenNodes(opener, entry));
    graph.nodes.push_back(std::move(nodes));
  }
  for (const store::EdgeTypeEntry& entry : dataset.manifest().edge_types) {
    SourceEdges edges;
    edges.type = entry.name;
    edges.source_type = entry.source_type;
    edges.destination_type = entry.destination_type;
    HEARTH_RETURN_IF_ERROR(opener.Open(entry.indptr, edges.indptr));
    HEARTH_RETURN_IF_ERROR(opener.Open(entry.indices, edges.indices));
    graph.edges.push_back(std::move(edges));
  }
  return graph;
}

}  // namespace hearth::ingest
