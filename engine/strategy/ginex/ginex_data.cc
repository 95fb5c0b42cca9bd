#include "engine/strategy/ginex/ginex_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/store/manifest.h"
#include "engine/store/residency.h"

namespace hearth::strategy {

absl::StatusOr<GinexData> GinexData::Open(io::FileSystem& files,
                                          const store::Dataset& dataset) {
  // Refuses graphs of several types, too.
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  const store::EdgeTypeEntry& edges = dataset.manifest().edge_types[0];
  HEARTH_ASSIGN_OR_RETURN(store::LoadedArray indptr,
                          store::LoadArray(files, dataset.path(), edges.indptr,
                                           store::Residency::kMemory));
  const std::string path = store::ArrayPath(dataset.path(), edges.indices);
  sample::StoredTopology topology = {
      .indptr = indptr.As<int64_t>(),
      .indices_path = path,
      .indices_offset = edges.indices.data_offset,
      .index_bytes = static_cast<int>(store::SizeOf(edges.indices.dtype))};
  if (topology.indptr.front() != 0 ||
      topology.indptr.back() != edges.num_edges) {
    return absl::DataLossError(absl::StrCat(dataset.path(),
                                            ": indptr does not span the ",
                                            edges.num_edges, " edges"));
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::BlockDevice> indices,
                          files.OpenBlockDevice(path, {}));
  HEARTH_RETURN_IF_ERROR(store::CheckArraySize(path, indices->size_bytes(),
                                               edges.indices.file_size_bytes));
  const io::RowLayout layout = {
      .first_offset = topology.indices_offset,
      .row_bytes = static_cast<uint32_t>(topology.index_bytes),
      .num_rows = edges.num_edges};
  return GinexData{.labels = std::move(labels),
                   .indptr = std::move(indptr),
                   .topology = std::move(topology),
                   .indices = std::move(indices),
                   .indices_layout = layout,
                   .features = std::move(features)};
}

}  // namespace hearth::strategy
