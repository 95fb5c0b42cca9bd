#include "engine/store/numpy_source.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/store/array_writer.h"
#include "engine/store/csc_arrays.h"
#include "engine/store/csc_copy.h"
#include "engine/store/edge_source.h"
#include "engine/store/feature_import.h"
#include "engine/store/label_import.h"

namespace hearth::store {
namespace {

constexpr char kEdgesFile[] = "edge_index.npy";
constexpr char kIndptrFile[] = "indptr.npy";
constexpr char kIndicesFile[] = "indices.npy";
constexpr std::array<const char*, 3> kSplitFiles = {
    "train_idx.npy", "valid_idx.npy", "test_idx.npy"};
// Manifest and the rounding of files to blocks of the disk.
constexpr uint64_t kOverheadBytes = 1 << 20;

absl::Status CheckFolder(io::FileSystem& files, const std::string& folder) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(folder);
  if (absl::IsNotFound(info.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": there is no such folder"));
  }
  HEARTH_RETURN_IF_ERROR(info.status());
  if (info->is_directory) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(folder, ": is not a folder"));
}

absl::Status OpenTopology(io::FileSystem& files, const std::string& folder,
                          NumpySource& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(folder));
  const auto is_there = [&](const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  const bool csc = is_there(kIndptrFile) || is_there(kIndicesFile);
  if (csc && is_there(kEdgesFile)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     ": has edge_index.npy and indptr.npy or "
                     "indices.npy; which of them holds the edges?"));
  }
  if (!csc) {
    HEARTH_ASSIGN_OR_RETURN(
        source.edges, NpyReader::Open(files, io::JoinPath(folder, kEdgesFile)));
    return CheckEdgeHeader(*source.edges);
  }
  HEARTH_ASSIGN_OR_RETURN(
      source.indptr, NpyReader::Open(files, io::JoinPath(folder, kIndptrFile)));
  HEARTH_ASSIGN_OR_RETURN(
      source.indices,
      NpyReader::Open(files, io::JoinPath(folder, kIndicesFile)));
  return CheckCscHeaders(*source.indptr, *source.indices, source.num_nodes());
}

}  // namespace

int64_t NumpySource::num_edges() const {
  return edges != nullptr ? NumEdges(*edges) : indices->header().shape[0];
}

absl::StatusOr<NumpySource> OpenNumpySource(io::FileSystem& files,
                                            const std::string& folder,
                                            bool in_place) {
  HEARTH_RETURN_IF_ERROR(CheckFolder(files, folder));
  NumpySource source;
  HEARTH_ASSIGN_OR_RETURN(
      source.features,
      NpyReader::Open(files, io::JoinPath(folder, "node_feat.npy")));
  HEARTH_RETURN_IF_ERROR(CheckFeatureHeader(*source.features, in_place));
  HEARTH_ASSIGN_OR_RETURN(
      source.labels,
      NpyReader::Open(files, io::JoinPath(folder, "node_label.npy")));
  HEARTH_RETURN_IF_ERROR(CheckLabelHeader(*source.labels, source.num_nodes()));
  for (size_t i = 0; i < kSplitFiles.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(
        source.split[i],
        NpyReader::Open(files, io::JoinPath(folder, kSplitFiles[i])));
    HEARTH_RETURN_IF_ERROR(
        CheckSplitHeader(*source.split[i], source.num_nodes()));
  }
  HEARTH_RETURN_IF_ERROR(OpenTopology(files, folder, source));
  return source;
}

uint64_t BytesToImport(const NumpySource& source, bool in_place) {
  const auto num_nodes = static_cast<uint64_t>(source.num_nodes());
  const auto num_edges = static_cast<uint64_t>(source.num_edges());
  const NpyHeader& features = source.features->header();
  const uint64_t feature_bytes =
      static_cast<uint64_t>(features.NumElements()) *
      static_cast<uint64_t>(SizeOf(StoredType(features)));
  uint64_t bytes = kOverheadBytes;
  bytes += StoredBytes(feature_bytes, kRandomAccessLayout);
  if (in_place) bytes -= feature_bytes;
  bytes += StoredBytes(num_nodes * sizeof(int32_t), kStreamLayout);
  for (const std::unique_ptr<NpyReader>& part : source.split) {
    bytes += StoredBytes(
        static_cast<uint64_t>(part->header().shape[0]) * sizeof(int64_t),
        kStreamLayout);
  }
  bytes += StoredBytes((num_nodes + 1) * sizeof(int64_t), kStreamLayout);
  const auto index_bytes =
      static_cast<uint64_t>(SizeOf(IndexType(source.num_nodes())));
  bytes += StoredBytes(num_edges * index_bytes, kStreamLayout);
  if (source.edges != nullptr) {
    bytes +=
        num_edges * static_cast<uint64_t>(ScratchEdgeBytes(source.num_nodes()));
  }
  return bytes;
}

}  // namespace hearth::store
