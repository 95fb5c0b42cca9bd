#include "engine/store/testing/list_graph.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

namespace hearth::store {
namespace {

template <typename T>
absl::StatusOr<FinishedArray> WriteArray(io::FileSystem& files,
                                         const std::string& folder,
                                         const char* what, DType dtype,
                                         const std::vector<T>& values) {
  HEARTH_ASSIGN_OR_RETURN(
      const auto writer,
      ArrayWriter::Create(
          files, {.folder = folder, .dataset = "stored", .prefix = "edge"},
          what, dtype, {static_cast<int64_t>(values.size())}, kStreamAccess));
  HEARTH_RETURN_IF_ERROR(
      writer->template AppendValues<T>(absl::MakeConstSpan(values)));
  return writer->Finish();
}

}  // namespace

ListGraph MakePlantedGraph(const PlantedCommunities& options,
                           RandomStream& random) {
  // A random permutation, in which community c has the nodes at c, c +
  // communities, ...
  std::vector<NodeId> shuffled(static_cast<size_t>(options.nodes));
  std::iota(shuffled.begin(), shuffled.end(), 0);
  for (size_t i = shuffled.size(); i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[random.Below(i)]);
  }
  std::vector<int64_t> place_of(shuffled.size());
  for (size_t i = 0; i < shuffled.size(); ++i) {
    place_of[static_cast<size_t>(shuffled[i])] = static_cast<int64_t>(i);
  }
  ListGraph graph;
  std::vector<NodeId> list;
  for (NodeId node = 0; node < options.nodes; ++node) {
    const int64_t community =
        place_of[static_cast<size_t>(node)] % options.communities;
    const int64_t members =
        (options.nodes - community + options.communities - 1) /
        options.communities;
    list.clear();
    for (int64_t i = 0; i < options.degree; ++i) {
      const bool anywhere =
          static_cast<int>(random.Below(100)) < options.mixing;
      const auto place =
          anywhere ? random.Below(static_cast<uint64_t>(options.nodes))
                   : static_cast<uint64_t>(community) +
                         random.Below(static_cast<uint64_t>(members)) *
                             static_cast<uint64_t>(options.communities);
      list.push_back(shuffled[place]);
    }
    graph.Append(list);
  }
  return graph;
}

absl::StatusOr<std::unique_ptr<Dataset>> StoreGraph(io::FileSystem& files,
                                                    const std::string& folder,
                                                    const ListGraph& graph) {
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  HEARTH_ASSIGN_OR_RETURN(
      FinishedArray indptr,
      WriteArray(files, folder, "indptr", DType::kInt64, graph.indptr));
  HEARTH_ASSIGN_OR_RETURN(
      FinishedArray indices,
      WriteArray(files, folder, "indices", DType::kInt32,
                 std::vector<int32_t>(graph.neighbors.begin(),
                                      graph.neighbors.end())));
  Manifest manifest;
  manifest.name = "stored";
  manifest.node_types.resize(1);
  manifest.node_types[0].name = "node";
  manifest.node_types[0].num_nodes = graph.num_nodes();
  manifest.edge_types.push_back({.name = "edge",
                                 .source_type = "node",
                                 .destination_type = "node",
                                 .num_edges = graph.num_edges(),
                                 .indptr = std::move(indptr.file),
                                 .indices = std::move(indices.file)});
  manifest.fingerprint = Fingerprint(
      manifest, {indptr.checksums_sha256, indices.checksums_sha256});
  HEARTH_RETURN_IF_ERROR(
      io::WriteFileAtomically(files, io::JoinPath(folder, Manifest::kFileName),
                              SerializeManifest(manifest)));
  return Dataset::Open(files, folder);
}

}  // namespace hearth::store
