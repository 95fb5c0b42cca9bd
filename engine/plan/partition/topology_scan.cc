#include "engine/plan/partition/topology_scan.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/store/array_type.h"
#include "engine/store/stored_array.h"

namespace hearth::plan {

namespace {

using store::ArrayStream;
using store::NodeId;

constexpr uint64_t kEndsBytes = 256 << 10;
// The streams of one node type share the buffer bytes of one edge type, but no
// buffer is smaller than this.
constexpr uint64_t kLeastBufferBytes = 1 << 20;

uint64_t StreamBytes(int64_t edge_types) {
  return std::max(kLeastBufferBytes,
                  ArrayStream::kBufferBytes /
                      static_cast<uint64_t>(std::max<int64_t>(edge_types, 1)));
}

uint64_t DataBytes(const store::ArrayFile& array) {
  return array.file_size_bytes - array.data_offset;
}

}  // namespace

/// Reads the lists of one edge type, one after another.
class TopologyReader::Edges {
 public:
  static absl::StatusOr<std::unique_ptr<Edges>> Open(
      io::FileSystem& files, const store::Dataset& dataset,
      const store::Relation& relation, uint64_t stream_bytes,
      const std::stop_token& stop) {
    const store::EdgeTypeEntry& entry =
        dataset.manifest().edge_types[relation.type];
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<ArrayStream> indptr,
        ArrayStream::Open(files, dataset.path(), entry.indptr, stop,
                          stream_bytes));
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<ArrayStream> indices,
        ArrayStream::Open(files, dataset.path(), entry.indices, stop,
                          stream_bytes));
    auto edges = std::unique_ptr<Edges>(
        new Edges(entry, relation, std::move(indptr), std::move(indices)));
    // indptr begins with 0; each further value ends a list.
    HEARTH_RETURN_IF_ERROR(edges->indptr_->Next(sizeof(int64_t)).status());
    return edges;
  }

  /// Moves on to the next list.
  absl::Status NextList() {
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
          absl::StrCat(indptr_->path(), ": the list of node ", node_,
                       " ends at ", end, ", that before at ", end_));
    }
    left_ = end - end_;
    end_ = end;
    ++node_;
    return absl::OkStatus();
  }

  /// Neighbors of the list that were not yet taken.
  int64_t left() const { return left_; }
  void Take(int64_t count) { left_ -= count; }

  /// Appends the next `count` neighbors, which were taken before, to
  /// `neighbors`.
  absl::Status Read(int64_t count, std::vector<NodeId>& neighbors) {
    const size_t begin = neighbors.size();
    neighbors.resize(begin + static_cast<size_t>(count));
    NodeId* to = neighbors.data() + begin;
    const auto id_bytes = static_cast<uint64_t>(id_bytes_);
    while (count > 0) {
      HEARTH_ASSIGN_OR_RETURN(
          const absl::Span<const std::byte> bytes,
          indices_->Next(static_cast<uint64_t>(count) * id_bytes));
      if (bytes.empty()) {
        return absl::DataLossError(
            absl::StrCat(indices_->path(), ": ends before ", end_, " edges"));
      }
      const uint64_t read = bytes.size() / id_bytes;
      DecodeIds(bytes.data(), read, id_bytes_, to);
      // Negative indices are large as unsigned numbers.
      uint64_t largest = 0;
      for (uint64_t i = 0; i < read; ++i) {
        largest = std::max(largest, static_cast<uint64_t>(to[i]));
      }
      if (largest >= static_cast<uint64_t>(relation_.num_sources)) {
        return absl::DataLossError(absl::StrCat(
            indices_->path(), ": a neighbor before byte ", indices_->position(),
            " of the data is no node of ", relation_.num_sources));
      }
      for (uint64_t i = 0; i < read; ++i) to[i] += relation_.first_source;
      to += read;
      count -= static_cast<int64_t>(read);
    }
    return absl::OkStatus();
  }

 private:
  Edges(const store::EdgeTypeEntry& entry, const store::Relation& relation,
        std::unique_ptr<ArrayStream> indptr,
        std::unique_ptr<ArrayStream> indices)
      : relation_(relation),
        num_edges_(entry.num_edges),
        id_bytes_(static_cast<int>(store::SizeOf(entry.indices.dtype))),
        indptr_(std::move(indptr)),
        indices_(std::move(indices)) {}

  const store::Relation relation_;
  const int64_t num_edges_;
  const int id_bytes_;
  const std::unique_ptr<ArrayStream> indptr_;
  const std::unique_ptr<ArrayStream> indices_;
  // Values of indptr that are not yet used.
  absl::Span<const std::byte> ends_;
  // The next node, within its type, and the end of the current list.
  NodeId node_ = 0;
  int64_t end_ = 0;
  int64_t left_ = 0;
};

uint64_t TopologyReader::MemoryBytes(int64_t edge_types_into_node) {
  return 2 * static_cast<uint64_t>(edge_types_into_node) *
         StreamBytes(edge_types_into_node);
}

absl::StatusOr<std::unique_ptr<TopologyReader>> TopologyReader::Open(
    io::FileSystem& files, const store::Dataset& dataset,
    const std::stop_token& stop) {
  auto reader =
      std::unique_ptr<TopologyReader>(new TopologyReader(files, dataset, stop));
  HEARTH_RETURN_IF_ERROR(reader->BeginType());
  return reader;
}

uint64_t TopologyReader::TotalBytes(const store::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    bytes += DataBytes(edges.indptr) + DataBytes(edges.indices);
  }
  return bytes;
}

TopologyReader::TopologyReader(io::FileSystem& files,
                               const store::Dataset& dataset,
                               std::stop_token stop)
    : files_(files),
      dataset_(dataset),
      stop_(std::move(stop)),
      nodes_(dataset.manifest()) {}

TopologyReader::~TopologyReader() = default;

absl::Status TopologyReader::BeginType() {
  edges_.clear();
  const store::Manifest& manifest = dataset_.manifest();
  std::vector<store::Relation> relations;
  for (size_t type = 0; type < manifest.edge_types.size(); ++type) {
    if (manifest.edge_types[type].destination_type ==
        manifest.node_types[type_].name) {
      relations.push_back(store::RelationAt(manifest, nodes_, type));
    }
  }
  for (const store::Relation& relation : relations) {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<Edges> edges,
        Edges::Open(files_, dataset_, relation,
                    StreamBytes(std::ssize(relations)), stop_));
    edges_.push_back(std::move(edges));
  }
  return absl::OkStatus();
}

absl::Status TopologyReader::BeginNode(ListWindow& window) {
  while (node_ == nodes_.First(type_ + 1)) {
    HEARTH_RETURN_IF_ERROR(ReadAdded(window));
    ++type_;
    HEARTH_RETURN_IF_ERROR(BeginType());
  }
  for (const std::unique_ptr<Edges>& edges : edges_) {
    HEARTH_RETURN_IF_ERROR(edges->NextList());
  }
  next_ = 0;
  return absl::OkStatus();
}

absl::Status TopologyReader::Next(ListWindow& window) {
  window.Clear();
  // Growing step by step would take twice the memory.
  if (edges_.size() > 1) window.neighbors.reserve(ListWindow::kMaxNeighbors);
  int64_t neighbors = 0;
  constexpr auto kMost = static_cast<int64_t>(ListWindow::kMaxNeighbors);
  while (window.size() < ListWindow::kMaxLists && neighbors < kMost) {
    if (!in_list_) {
      if (node_ == nodes_.num_nodes()) break;
      HEARTH_RETURN_IF_ERROR(BeginNode(window));
    }
    while (next_ < edges_.size()) {
      Edges& edges = *edges_[next_];
      const int64_t taken = std::min(edges.left(), kMost - neighbors);
      HEARTH_RETURN_IF_ERROR(Add(edges, taken, window));
      neighbors += taken;
      if (edges.left() > 0) break;
      ++next_;
    }
    window.nodes.push_back(node_);
    window.ends.push_back(static_cast<uint32_t>(neighbors));
    in_list_ = window.is_cut = next_ < edges_.size();
    if (!in_list_) ++node_;
  }
  return ReadAdded(window);
}

absl::Status TopologyReader::Add(Edges& edges, int64_t count,
                                 ListWindow& window) {
  if (count == 0) return absl::OkStatus();
  if (added_ != &edges) HEARTH_RETURN_IF_ERROR(ReadAdded(window));
  added_ = &edges;
  num_added_ += count;
  edges.Take(count);
  return absl::OkStatus();
}

absl::Status TopologyReader::ReadAdded(ListWindow& window) {
  if (num_added_ == 0) return absl::OkStatus();
  return added_->Read(std::exchange(num_added_, 0), window.neighbors);
}

namespace {

constexpr int kQueueCapacity = 4;

// Upper bound of the windows: each but the last is full of lists, the first of
// which may be the end of a cut one, or full of neighbors.
int64_t MostWindows(const PartitionShape& shape) {
  return shape.nodes / int64_t{ListWindow::kMaxLists - 1} +
         shape.edges / int64_t{ListWindow::kMaxNeighbors} + 2;
}

}  // namespace

int ItemsInFlight(int threads) { return 2 * kQueueCapacity + threads + 3; }

absl::Status ScanTopology(const PartitionContext& context,
                          const TopologyScan& scan) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TopologyReader> reader,
      TopologyReader::Open(context.files, context.dataset, context.run.stop));
  StageProgress progress(
      context.run, scan.stage,
      TopologyReader::TotalBytes(context.dataset.manifest()));
  std::vector<pipeline::Stage> stages;
  stages.push_back({.name = "read",
                    .width = 1,
                    .queue_capacity = kQueueCapacity,
                    .work = [&](int, pipeline::Item& item) {
                      return reader->Next(
                          static_cast<WindowItem&>(item).window);
                    }});
  stages.push_back({.name = "work",
                    .width = context.threads(),
                    .queue_capacity = kQueueCapacity,
                    .work = [&](int thread, pipeline::Item& item) {
                      return scan.work(thread, static_cast<WindowItem&>(item));
                    }});
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline(std::move(stages), "use", *context.run.clock);
  return pipeline->Run(
      MostWindows(context.shape), [&](int64_t) { return scan.make(); },
      [&](std::unique_ptr<pipeline::Item> item) {
        auto& taken = static_cast<WindowItem&>(*item);
        const ListWindow& window = taken.window;
        progress.Advance(window.size() * sizeof(int64_t) +
                         window.neighbors.size() *
                             static_cast<uint64_t>(context.id_bytes()));
        return scan.use(taken);
      },
      context.run.stop);
}

}  // namespace hearth::plan
