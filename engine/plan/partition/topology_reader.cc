#include "engine/plan/partition/topology_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/node_ids.h"
#include "engine/store/dtype.h"

namespace hearth::plan {
namespace {

constexpr uint64_t kEndsBytes = 256 << 10;

uint64_t DataBytes(const store::ArrayFile& array) {
  return array.file_size_bytes - array.data_offset;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopologyReader>> TopologyReader::Open(
    io::FileSystem& files, const store::Dataset& dataset,
    const std::stop_token& stop) {
  const store::Manifest& manifest = dataset.manifest();
  const store::EdgeTypeEntry& edges = manifest.edge_types[0];
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ArrayStream> indptr,
      store::ArrayStream::Open(files, dataset.path(), edges.indptr, stop));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ArrayStream> indices,
      store::ArrayStream::Open(files, dataset.path(), edges.indices, stop));
  auto reader = std::unique_ptr<TopologyReader>(
      new TopologyReader(edges, manifest.node_types[0].num_nodes,
                         std::move(indptr), std::move(indices)));
  // The first value is 0; each other one ends a list.
  HEARTH_RETURN_IF_ERROR(reader->indptr_->Next(sizeof(int64_t)).status());
  return reader;
}

uint64_t TopologyReader::TotalBytes(const store::EdgeTypeEntry& edges) {
  return DataBytes(edges.indptr) + DataBytes(edges.indices);
}

TopologyReader::TopologyReader(const store::EdgeTypeEntry& edges,
                               int64_t num_nodes,
                               std::unique_ptr<store::ArrayStream> indptr,
                               std::unique_ptr<store::ArrayStream> indices)
    : num_nodes_(num_nodes),
      num_edges_(edges.num_edges),
      id_bytes_(static_cast<int>(store::SizeOf(edges.indices.dtype))),
      indptr_(std::move(indptr)),
      indices_(std::move(indices)) {}

absl::Status TopologyReader::Next(ListWindow& window) {
  window.Clear();
  int64_t neighbors = 0;
  constexpr auto kMost = static_cast<int64_t>(ListWindow::kMaxNeighbors);
  while (window.size() < ListWindow::kMaxLists && neighbors < kMost) {
    if (!in_list_) {
      if (node_ == num_nodes_) break;
      HEARTH_RETURN_IF_ERROR(NextList());
    }
    const int64_t taken = std::min(left_, kMost - neighbors);
    neighbors += taken;
    left_ -= taken;
    window.nodes.push_back(node_);
    window.ends.push_back(static_cast<uint32_t>(neighbors));
    in_list_ = window.is_cut = left_ > 0;
    if (!in_list_) ++node_;
  }
  return ReadNeighbors(window, static_cast<uint64_t>(neighbors));
}

absl::Status TopologyReader::NextList() {
  if (ends_.empty()) {
    HEARTH_ASSIGN_OR_RETURN(ends_, indptr_->Next(kEndsBytes));
  }
  int64_t end;
  if (ends_.size() < sizeof(end)) {
    return absl::DataLossError(
        absl::StrCat(indptr_->path(), ": ends at node ", node_));
  }
  std::memcpy(&end, ends_.data(), sizeof(end));
  ends_.remove_prefix(sizeof(end));
  if (end < end_ || end > num_edges_) {
    return absl::DataLossError(
        absl::StrCat(indptr_->path(), ": the list of node ", node_, " ends at ",
                     end, ", that before at ", end_));
  }
  left_ = end - end_;
  end_ = end;
  return absl::OkStatus();
}

absl::Status TopologyReader::ReadNeighbors(ListWindow& window, uint64_t count) {
  window.neighbors.resize(count);
  store::NodeId* to = window.neighbors.data();
  const auto id_bytes = static_cast<uint64_t>(id_bytes_);
  while (count > 0) {
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                            indices_->Next(count * id_bytes));
    if (bytes.empty()) {
      return absl::DataLossError(
          absl::StrCat(indices_->path(), ": ends before ", end_, " edges"));
    }
    const uint64_t read = bytes.size() / id_bytes;
    DecodeIds(bytes.data(), read, id_bytes_, to);
    // Negative ones are large without a sign.
    uint64_t largest = 0;
    for (uint64_t i = 0; i < read; ++i) {
      largest = std::max(largest, static_cast<uint64_t>(to[i]));
    }
    if (largest >= static_cast<uint64_t>(num_nodes_)) {
      return absl::DataLossError(absl::StrCat(
          indices_->path(), ": a neighbor before byte ", indices_->position(),
          " of the data is no node of ", num_nodes_));
    }
    to += read;
    count -= read;
  }
  return absl::OkStatus();
}

}  // namespace hearth::plan
