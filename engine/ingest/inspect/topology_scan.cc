#include "engine/ingest/inspect/topology_scan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

namespace {

// Small compared with the least memory limit of an import.
constexpr uint64_t kLowDegrees = 1 << 12;
constexpr int64_t kBlockIds = 4096;

}  // namespace

void DegreeCounts::Add(uint64_t degree) {
  ++num_nodes_;
  num_edges_ += degree;
  if (degree >= kLowDegrees) {
    ++high_[degree];
    return;
  }
  if (degree >= low_.size()) low_.resize(degree + 1);
  ++low_[degree];
}

uint64_t DegreeCounts::NumOf(uint64_t degree) const {
  if (degree < low_.size()) return low_[degree];
  const auto found = high_.find(degree);
  return found == high_.end() ? 0 : found->second;
}

double DegreeCounts::Mean() const {
  if (num_nodes_ == 0) return 0;
  return static_cast<double>(num_edges_) / static_cast<double>(num_nodes_);
}

uint64_t DegreeCounts::Percentile(uint64_t percent) const {
  if (num_nodes_ == 0) return 0;
  // Rounded up, without the product, which could overflow.
  const uint64_t wanted =
      num_nodes_ / 100 * percent + (num_nodes_ % 100 * percent + 99) / 100;
  uint64_t seen = 0;
  for (uint64_t degree = 0; degree < low_.size(); ++degree) {
    seen += low_[degree];
    if (seen >= wanted) return degree;
  }
  for (const auto& [degree, count] : high_) {
    seen += count;
    if (seen >= wanted) return degree;
  }
  return high_.rbegin()->first;
}

absl::StatusOr<IdStream> IdStream::Open(io::FileSystem& files,
                                        const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> ids,
                          ArrayReader::OpenNpy(files, path));
  IdStream stream(std::move(ids));
  HEARTH_RETURN_IF_ERROR(stream.ReadBlock());
  return stream;
}

absl::Status IdStream::Next() {
  ++at_;
  return at_ < block_.size() ? absl::OkStatus() : ReadBlock();
}

absl::Status IdStream::ReadBlock() {
  const int64_t left = ids_->header().NumElements() - num_read_;
  block_.resize(static_cast<size_t>(std::min(left, kBlockIds)));
  at_ = 0;
  if (block_.empty()) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(ids_->ReadInts(num_read_, absl::MakeSpan(block_)));
  num_read_ += static_cast<int64_t>(block_.size());
  return absl::OkStatus();
}

namespace {

constexpr uint64_t kMaxBlockBytes = 2 << 20;
// Number of prefetches that are in flight.
constexpr size_t kPrefetched = 16;

uint64_t DataBytes(const store::ArrayFile& array) {
  return array.file_size_bytes - array.data_offset;
}

uint64_t BytesOfBits(int64_t count) {
  return static_cast<uint64_t>(count) / 8 + sizeof(uint64_t);
}

uint64_t CountZeros(const std::vector<bool>& bits) {
  return static_cast<uint64_t>(std::count(bits.begin(), bits.end(), false));
}

}  // namespace

struct TopologyScan::Counts {
  /// Adds sources of edges, in any order, and looks up their classes if those
  /// are counted; false if one is no node.
  bool AddSources(absl::Span<const int64_t> sources,
                  std::vector<int32_t>& source_classes) {
    // No branch per source, so that the compiler vectorizes the loop.
    bool all_nodes = true;
    for (const int64_t source : sources) {
      all_nodes &=
          static_cast<uint64_t>(source) < static_cast<uint64_t>(num_sources);
    }
    if (!all_nodes) return false;
    if (!is_source.empty()) {
      for (const int64_t source : sources) {
        is_source[static_cast<size_t>(source)] = true;
      }
    }
    if (classes.empty()) return true;
    source_classes.resize(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const size_t ahead = std::min(i + kPrefetched, sources.size() - 1);
      __builtin_prefetch(&classes[static_cast<size_t>(sources[ahead])]);
      source_classes[i] = classes[static_cast<size_t>(sources[i])];
    }
    return true;
  }

  /// Adds the edges into `destination`, whose sources were added already.
  void AddEdges(int64_t destination, absl::Span<const int64_t> sources,
                absl::Span<const int32_t> source_classes) {
    if (same_type) {
      num_self_loops += static_cast<uint64_t>(
          std::count(sources.begin(), sources.end(), destination));
    }
    if (source_classes.empty()) return;
    const int32_t label = classes[static_cast<size_t>(destination)];
    if (label < 0) return;
    for (const int32_t other : source_classes) {
      num_labeled += other >= 0 ? 1 : 0;
      num_equal += other == label ? 1 : 0;
    }
  }

  int64_t num_sources = 0;
  bool same_type = false;
  /// Nodes that are sources; empty if they are not counted.
  std::vector<bool> is_source;
  std::vector<bool>* is_destination = nullptr;
  /// Classes of the nodes at both ends; empty if homophily is not computed.
  std::vector<int32_t> classes;
  DegreeCounts in_degrees;
  uint64_t num_self_loops = 0;
  /// Number of edges between labeled nodes, and of those between equal labels.
  uint64_t num_labeled = 0;
  uint64_t num_equal = 0;
};

/// Reads lists of neighbors in blocks. What is counted of sources does not
/// depend on the ends of lists, so it is counted over whole blocks: lists are
/// short, and the code after each list would wait for memory again.
class TopologyScan::NeighborStream {
 public:
  /// Neighbors, and their classes if homophily is computed.
  struct Neighbors {
    absl::Span<const int64_t> ids;
    absl::Span<const int32_t> classes;
  };

  NeighborStream(ImportContext& context, ArrayReader& indices,
                 int64_t block_elements, Counts& counts)
      : context_(context),
        indices_(indices),
        block_elements_(block_elements),
        counts_(counts) {}

  /// The next neighbors: at least one, at most `count`.
  absl::StatusOr<Neighbors> Take(int64_t count) {
    if (at_ == block_.size()) HEARTH_RETURN_IF_ERROR(ReadBlock());
    const auto taken =
        std::min(static_cast<size_t>(count), block_.size() - at_);
    Neighbors neighbors;
    neighbors.ids = absl::MakeConstSpan(block_).subspan(at_, taken);
    if (!classes_.empty()) {
      neighbors.classes = absl::MakeConstSpan(classes_).subspan(at_, taken);
    }
    at_ += taken;
    return neighbors;
  }

 private:
  absl::Status ReadBlock() {
    const store::ArrayHeader& header = indices_.header();
    const int64_t left = header.NumElements() - num_read_;
    if (left <= 0) {
      return absl::DataLossError(absl::StrCat(
          indices_.path(), ": has fewer elements than its offsets say"));
    }
    block_.resize(static_cast<size_t>(std::min(left, block_elements_)));
    at_ = 0;
    HEARTH_RETURN_IF_ERROR(
        indices_.ReadInts(num_read_, absl::MakeSpan(block_)));
    num_read_ += static_cast<int64_t>(block_.size());
    if (!counts_.AddSources(block_, classes_)) {
      return absl::DataLossError(
          absl::StrCat(indices_.path(), ": has ids that no node has"));
    }
    return context_.Advance(block_.size() *
                            static_cast<uint64_t>(header.type.item_bytes));
  }

  ImportContext& context_;
  ArrayReader& indices_;
  const int64_t block_elements_;
  Counts& counts_;
  int64_t num_read_ = 0;
  std::vector<int64_t> block_;
  /// Classes of the nodes in the block; empty if they are not needed.
  std::vector<int32_t> classes_;
  size_t at_ = 0;
};

TopologyScan::TopologyScan(ImportContext& context, const std::string& folder,
                           const store::Manifest& manifest)
    : context_(context), folder_(folder), manifest_(manifest) {
  uint64_t needed = 0, largest = 0;
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    const uint64_t bytes = BytesOfBits(nodes.num_nodes);
    needed += 2 * bytes;
    largest = std::max(largest, bytes);
  }
  has_ends_ = needed + largest <= context.memory_limit_bytes() / 4;
  if (!has_ends_) return;
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    const auto count = static_cast<size_t>(nodes.num_nodes);
    ends_.push_back({std::vector<bool>(count), std::vector<bool>(count)});
  }
}

size_t TopologyScan::FindNodes(const std::string& type) const {
  size_t found = 0;
  while (manifest_.node_types[found].name != type) ++found;
  return found;
}

bool TopologyScan::JoinsClasses(const store::EdgeTypeEntry& edges) const {
  if (edges.source_type != edges.destination_type) return false;
  const store::NodeTypeEntry& nodes =
      manifest_.node_types[FindNodes(edges.source_type)];
  return !nodes.labels.path.empty() &&
         nodes.label_kind == store::LabelKind::kClasses;
}

bool TopologyScan::FitsLabels(const store::EdgeTypeEntry& edges) const {
  const store::NodeTypeEntry& nodes =
      manifest_.node_types[FindNodes(edges.source_type)];
  return DataBytes(nodes.labels) <= context_.memory_limit_bytes() / 4;
}

uint64_t TopologyScan::BytesToScan() const {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& edges : manifest_.edge_types) {
    bytes += DataBytes(edges.indptr) + DataBytes(edges.indices);
    if (!JoinsClasses(edges) || !FitsLabels(edges)) continue;
    bytes +=
        DataBytes(manifest_.node_types[FindNodes(edges.source_type)].labels);
  }
  return bytes;
}

int64_t TopologyScan::BlockElements() const {
  return static_cast<int64_t>(
      std::min(kMaxBlockBytes, context_.memory_limit_bytes() / 32) /
      sizeof(int64_t));
}

absl::StatusOr<std::vector<int32_t>> TopologyScan::ReadClasses(
    const store::NodeTypeEntry& nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayReader> labels,
      ArrayReader::OpenNpy(context_.files(),
                           io::JoinPath(folder_, nodes.labels.path)));
  std::vector<int32_t> classes(static_cast<size_t>(nodes.num_nodes));
  const auto block_elements = static_cast<size_t>(BlockElements());
  for (size_t first = 0; first < classes.size(); first += block_elements) {
    const absl::Span<int32_t> block =
        absl::MakeSpan(classes).subspan(first, block_elements);
    const absl::Span<std::byte> bytes(
        reinterpret_cast<std::byte*>(block.data()),
        block.size() * sizeof(int32_t));
    HEARTH_RETURN_IF_ERROR(
        labels->ReadBytes(static_cast<int64_t>(first), bytes));
    HEARTH_RETURN_IF_ERROR(context_.Advance(bytes.size()));
  }
  return classes;
}

absl::StatusOr<EdgeStatistics> TopologyScan::Scan(
    const store::EdgeTypeEntry& edges) {
  const size_t source = FindNodes(edges.source_type);
  Counts counts;
  counts.num_sources = manifest_.node_types[source].num_nodes;
  counts.same_type = edges.source_type == edges.destination_type;
  if (has_ends_) {
    counts.is_source.resize(static_cast<size_t>(counts.num_sources));
    counts.is_destination =
        &ends_[FindNodes(edges.destination_type)].is_destination;
  }
  if (JoinsClasses(edges) && FitsLabels(edges)) {
    HEARTH_ASSIGN_OR_RETURN(counts.classes,
                            ReadClasses(manifest_.node_types[source]));
  }
  HEARTH_RETURN_IF_ERROR(ScanLists(edges, counts));
  EdgeStatistics statistics;
  statistics.type = edges.name;
  statistics.mean_in_degree = counts.in_degrees.Mean();
  statistics.median_in_degree = counts.in_degrees.Percentile(50);
  statistics.percentile_99_in_degree = counts.in_degrees.Percentile(99);
  statistics.max_in_degree = counts.in_degrees.Percentile(100);
  statistics.num_without_in_edges = counts.in_degrees.NumOf(0);
  statistics.num_self_loops = counts.num_self_loops;
  if (counts.num_labeled > 0) {
    statistics.homophily = static_cast<double>(counts.num_equal) /
                           static_cast<double>(counts.num_labeled);
  }
  if (has_ends_) {
    statistics.num_without_out_edges = CountZeros(counts.is_source);
    std::vector<bool>& all = ends_[source].is_source;
    std::transform(all.begin(), all.end(), counts.is_source.begin(),
                   all.begin(), [](bool a, bool b) { return a || b; });
  }
  return statistics;
}

absl::Status TopologyScan::AddList(int64_t destination, int64_t degree,
                                   NeighborStream& neighbors, Counts& counts) {
  while (degree > 0) {
    HEARTH_ASSIGN_OR_RETURN(const NeighborStream::Neighbors sources,
                            neighbors.Take(degree));
    counts.AddEdges(destination, sources.ids, sources.classes);
    degree -= static_cast<int64_t>(sources.ids.size());
  }
  return absl::OkStatus();
}

absl::Status TopologyScan::ScanLists(const store::EdgeTypeEntry& edges,
                                     Counts& counts) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayReader> indptr,
      ArrayReader::OpenNpy(context_.files(),
                           io::JoinPath(folder_, edges.indptr.path)));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayReader> indices,
      ArrayReader::OpenNpy(context_.files(),
                           io::JoinPath(folder_, edges.indices.path)));
  NeighborStream neighbors(context_, *indices, BlockElements(), counts);
  const int64_t num_offsets = indptr->header().NumElements();
  std::vector<int64_t> offsets;
  int64_t begin = 0;
  for (int64_t first = 0; first < num_offsets; first += BlockElements()) {
    offsets.resize(
        static_cast<size_t>(std::min(BlockElements(), num_offsets - first)));
    HEARTH_RETURN_IF_ERROR(indptr->ReadInts(first, absl::MakeSpan(offsets)));
    for (size_t i = first == 0 ? 1 : 0; i < offsets.size(); ++i) {
      const int64_t destination = first + static_cast<int64_t>(i) - 1;
      const int64_t degree = offsets[i] - begin;
      if (degree < 0) {
        return absl::DataLossError(
            absl::StrCat(indptr->path(), ": is not ascending"));
      }
      counts.in_degrees.Add(static_cast<uint64_t>(degree));
      if (degree > 0 && counts.is_destination != nullptr) {
        (*counts.is_destination)[static_cast<size_t>(destination)] = true;
      }
      HEARTH_RETURN_IF_ERROR(AddList(destination, degree, neighbors, counts));
      begin = offsets[i];
    }
    HEARTH_RETURN_IF_ERROR(context_.Advance(offsets.size() * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

std::optional<uint64_t> TopologyScan::NumIsolated(size_t node_type) const {
  if (!has_ends_) return std::nullopt;
  const Ends& ends = ends_[node_type];
  uint64_t isolated = 0;
  for (size_t i = 0; i < ends.is_source.size(); ++i) {
    isolated += !ends.is_source[i] && !ends.is_destination[i] ? 1 : 0;
  }
  return isolated;
}

absl::StatusOr<std::optional<uint64_t>> TopologyScan::NumTrainOnlySources(
    size_t node_type) const {
  const store::ArrayFile& train = manifest_.node_types[node_type].train;
  if (!has_ends_ || train.path.empty()) return std::nullopt;
  const Ends& ends = ends_[node_type];
  HEARTH_ASSIGN_OR_RETURN(
      IdStream ids,
      IdStream::Open(context_.files(), io::JoinPath(folder_, train.path)));
  uint64_t count = 0;
  while (!ids.AtEnd()) {
    const auto id = static_cast<size_t>(ids.id());
    if (id >= ends.is_source.size()) {
      return absl::DataLossError(
          absl::StrCat(train.path, ": has ids that no node has"));
    }
    count += ends.is_source[id] && !ends.is_destination[id] ? 1 : 0;
    HEARTH_RETURN_IF_ERROR(ids.Next());
  }
  return count;
}

std::vector<std::string> TopologyScan::Notes() const {
  const std::string limit = absl::StrCat(
      "a quarter of the import's memory limit (",
      FormatByteSize(context_.memory_limit_bytes() / 4), ") does not hold ");
  std::vector<std::string> notes;
  if (!has_ends_) {
    notes.push_back(absl::StrCat(
        "isolated nodes and nodes without out-edges were not counted: ", limit,
        "three bits for each node"));
  }
  for (const store::EdgeTypeEntry& edges : manifest_.edge_types) {
    if (!JoinsClasses(edges) || FitsLabels(edges)) continue;
    notes.push_back(absl::StrCat("the homophily of edges \"", edges.name,
                                 "\" was not counted: ", limit, "the labels"));
  }
  return notes;
}

}  // namespace hearth::ingest
