#include "engine/ingest/export/csc_writers.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"
#include "engine/ingest/export/torch_split_output.h"
#include "engine/ingest/export/torch_writer.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/feature_import.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {
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

/// The opened folder of a format that needs everything, in CSC.
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

}  // namespace hearth::ingest
