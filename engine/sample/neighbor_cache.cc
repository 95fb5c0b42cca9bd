#include "engine/sample/neighbor_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/graph.h"

namespace hearth::sample {

namespace {

/// A piece of an array of indices, from index `first` on, 4 or 8 bytes each.
struct IndicesChunk {
  int64_t first = 0;
  int64_t count = 0;
  absl::Span<const std::byte> bytes;
};

/// An array of `count` integers of `index_bytes` (4 or 8) in a file, which
/// begins at a multiple of index_bytes.
struct IndicesArray {
  std::string path;
  uint64_t offset = 0;
  int64_t count = 0;
  int index_bytes = 4;
};

// Large enough for the disk's full speed.
constexpr uint64_t kChunkBytes = 8 << 20;
// The alignment of reads past the page cache.
constexpr uint64_t kPageBytes = 4096;

// Reads the whole array once, in order, past the page cache. Returns the first
// error of the file or of `visit`; CANCELLED between chunks on a stop.
absl::Status ScanIndices(
    io::FileSystem& files, const IndicesArray& array, std::stop_token stop,
    absl::FunctionRef<absl::Status(const IndicesChunk& chunk)> visit) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(array.path));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kChunkBytes));
  const auto index_bytes = static_cast<uint64_t>(array.index_bytes);
  const uint64_t end =
      array.offset + static_cast<uint64_t>(array.count) * index_bytes;
  uint64_t at = array.offset;
  while (at < end) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(array.path, ": scan stopped on request"));
    }
    // The first chunk ends on a page, so that all others begin on one.
    const uint64_t length = std::min(kChunkBytes - at % kPageBytes, end - at);
    const absl::Span<std::byte> bytes = memory.bytes().subspan(0, length);
    HEARTH_RETURN_IF_ERROR(file->Read(at, bytes));
    HEARTH_RETURN_IF_ERROR(
        visit({.first = static_cast<int64_t>((at - array.offset) / index_bytes),
               .count = static_cast<int64_t>(length / index_bytes),
               .bytes = bytes}));
    at += length;
  }
  return absl::OkStatus();
}

// The file: a header of one page; table and lists as in memory; the CRC32C of
// each block of them; the CRC32C of these checksums. Numbers are in the
// machine's byte order, because the file never leaves the machine.

using store::NodeId;
using store::StoredTopology;

constexpr uint64_t kBlockBytes = 1 << 20;
// Seed of the blocks' checksums.
constexpr uint64_t kFileId = 0x4E65696768626F72;
constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'N', '1'};

struct Header {
  char magic[8];
  int64_t num_nodes;
  int64_t num_lists;
  int64_t num_neighbors;
  int64_t wide;
  // CRC32C of all fields above.
  uint32_t crc;
  uint32_t zero;
};

template <typename T>
absl::Span<const std::byte> AsBytes(absl::Span<const T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

uint32_t HeaderCrc(const Header& header) {
  return Crc32c(
      {reinterpret_cast<const std::byte*>(&header), offsetof(Header, crc)});
}

uint64_t NumBlocks(uint64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

absl::Span<const std::byte> BlockOf(absl::Span<const std::byte> payload,
                                    uint64_t number) {
  return payload.subspan(number * kBlockBytes, kBlockBytes);
}

absl::Status Damaged(const std::string& path, uint64_t offset,
                     absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what, " at byte ", offset,
                                          " is damaged (its checksum does not "
                                          "match)"));
}

IndicesArray IndicesOf(const StoredTopology& topology, size_t relation) {
  const store::IndicesFile& file = topology.files[relation];
  return {.path = file.path,
          .offset = file.offset,
          .count = topology.relations[relation].topology.num_edges(),
          .index_bytes = file.index_bytes};
}

/// In-neighbors of each node as one list: concatenated over all relations that
/// lead to the node.
class JoinedLists {
 public:
  explicit JoinedLists(const StoredTopology& topology)
      : topology_(topology),
        into_(store::RelationsInto(topology.relations, topology.nodes)) {
    wide_ = topology.num_nodes() > INT32_MAX;
    for (const store::IndicesFile& file : topology.files) {
      wide_ = wide_ || file.index_bytes == sizeof(int64_t);
    }
  }

  int64_t num_nodes() const { return topology_.num_nodes(); }

  /// Whether a neighbor takes 8 bytes instead of 4.
  bool wide() const { return wide_; }
  uint64_t index_bytes() const {
    return wide_ ? sizeof(int64_t) : sizeof(int32_t);
  }

  int64_t InDegree(NodeId node) const {
    return NeighborsBefore(node, topology_.relations.size());
  }

  /// In-neighbors of `node` by relations before `relation`.
  int64_t NeighborsBefore(NodeId node, size_t relation) const {
    int64_t neighbors = 0;
    for (const size_t one : into_[topology_.nodes.TypeOf(node)]) {
      if (one >= relation) break;
      neighbors += topology_.relations[one].InDegree(node);
    }
    return neighbors;
  }

 private:
  const StoredTopology& topology_;
  const std::vector<std::vector<size_t>> into_;
  bool wide_ = false;
};

/// Calls `visit` with each source of the chunk.
template <typename Index, typename Visit>
absl::Status VisitSources(const StoredTopology& topology, size_t relation,
                          const IndicesChunk& chunk, Visit visit) {
  const store::Relation& edges = topology.relations[relation];
  const auto* indices = reinterpret_cast<const Index*>(chunk.bytes.data());
  for (int64_t i = 0; i < chunk.count; ++i) {
    if (indices[i] < 0 || indices[i] >= edges.num_sources) {
      const store::IndicesFile& file = topology.files[relation];
      return absl::DataLossError(absl::StrCat(
          file.path, ": neighbor ", indices[i], " at byte ",
          file.offset + static_cast<uint64_t>(chunk.first + i) * sizeof(Index),
          " is not one of ", edges.num_sources, " nodes"));
    }
    visit(edges.first_source + indices[i]);
  }
  return absl::OkStatus();
}

template <typename Visit>
absl::Status VisitSourcesOf(const StoredTopology& topology, size_t relation,
                            const IndicesChunk& chunk, Visit visit) {
  return topology.files[relation].index_bytes == 4
             ? VisitSources<int32_t>(topology, relation, chunk, visit)
             : VisitSources<int64_t>(topology, relation, chunk, visit);
}

/// Bytes of the table that finds lists.
uint64_t TableBytes(const StoredTopology& topology) {
  return static_cast<uint64_t>(topology.num_nodes()) * sizeof(int64_t);
}

/// A node and its rank.
struct Ranked {
  double worth;
  NodeId node;
};

/// All nodes with in-neighbors, ranked by `worth`.
template <typename Worth>
std::vector<Ranked> WithWorth(const JoinedLists& lists, Worth worth) {
  std::vector<Ranked> nodes;
  nodes.reserve(static_cast<size_t>(lists.num_nodes()));
  for (NodeId node = 0; node < lists.num_nodes(); ++node) {
    const int64_t in_degree = lists.InDegree(node);
    if (in_degree == 0) continue;
    nodes.push_back({.worth = worth(node, in_degree), .node = node});
  }
  return nodes;
}

/// All nodes with in-neighbors, ranked by out-degree over in-degree.
absl::StatusOr<std::vector<Ranked>> WeighByRatio(io::FileSystem& files,
                                                 const StoredTopology& topology,
                                                 const JoinedLists& lists,
                                                 const std::stop_token& stop) {
  const auto num_nodes = static_cast<size_t>(topology.num_nodes());
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(num_nodes * sizeof(int64_t)));
  const absl::Span<int64_t> out_degrees(
      reinterpret_cast<int64_t*>(memory.bytes().data()), num_nodes);
  for (size_t i = 0; i < topology.relations.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(ScanIndices(
        files, IndicesOf(topology, i), stop, [&](const IndicesChunk& chunk) {
          return VisitSourcesOf(topology, i, chunk,
                                [&](NodeId source) { ++out_degrees[source]; });
        }));
  }
  return WithWorth(lists, [&](NodeId node, int64_t in_degree) {
    return static_cast<double>(out_degrees[node]) /
           static_cast<double>(in_degree);
  });
}

absl::StatusOr<std::vector<Ranked>> Weigh(io::FileSystem& files,
                                          const StoredTopology& topology,
                                          const JoinedLists& lists,
                                          const NeighborCacheOptions& options,
                                          const std::stop_token& stop) {
  if (options.cross_counts.empty()) {
    return WeighByRatio(files, topology, lists, stop);
  }
  return WithWorth(lists, [&](NodeId node, int64_t /*in_degree*/) {
    return static_cast<double>(options.cross_counts[node]);
  });
}

/// Nodes of highest rank whose lists fit into `bytes`, ascending.
std::vector<NodeId> ChooseWithin(uint64_t bytes, const JoinedLists& lists,
                                 std::vector<Ranked> ranked) {
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.worth != b.worth ? a.worth > b.worth : a.node < b.node;
  });
  std::vector<NodeId> chosen;
  for (const Ranked& candidate : ranked) {
    const uint64_t list =
        static_cast<uint64_t>(lists.InDegree(candidate.node)) *
        lists.index_bytes();
    if (list > bytes) continue;
    bytes -= list;
    chosen.push_back(candidate.node);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Converts `count` indices of a relation to numbers among the nodes of all
/// types.
template <typename From, typename To>
void ConvertIndices(const std::byte* from, int64_t count, NodeId first_source,
                    std::byte* to) {
  const auto* indices = reinterpret_cast<const From*>(from);
  auto* nodes = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) {
    nodes[i] = static_cast<To>(first_source + indices[i]);
  }
}

/// Copies the lists of chosen nodes, ascending, to their places, during scans
/// of all relations. A list may extend over several chunks.
class ListCopier {
 public:
  /// `table` gives the place of each node's list in `out`.
  ListCopier(const StoredTopology& topology, const JoinedLists& lists,
             const std::vector<NodeId>& nodes, absl::Span<const int64_t> table,
             std::byte* out)
      : topology_(topology),
        lists_(lists),
        nodes_(nodes),
        table_(table),
        out_(out) {}

  /// Starts relation `relation`: the next chunks are all of its chunks, in
  /// order.
  void Begin(size_t relation) {
    const store::Relation& edges = topology_.relations[relation];
    relation_ = relation;
    next_ =
        std::lower_bound(nodes_.begin(), nodes_.end(), edges.first_destination);
    end_ =
        std::lower_bound(next_, nodes_.end(),
                         edges.first_destination + edges.topology.num_nodes());
  }

  void Copy(const IndicesChunk& chunk) {
    const store::Relation& edges = topology_.relations[relation_];
    const auto index_bytes =
        static_cast<size_t>(topology_.files[relation_].index_bytes);
    const int64_t chunk_end = chunk.first + chunk.count;
    for (; next_ != end_; ++next_) {
      const NodeId local = *next_ - edges.first_destination;
      const int64_t list_begin = edges.topology.indptr[local];
      const int64_t list_end = edges.topology.indptr[local + 1];
      if (list_begin >= chunk_end) return;
      const int64_t from = std::max(list_begin, chunk.first);
      const int64_t to = std::min(list_end, chunk_end);
      const int64_t place = table_[*next_] +
                            lists_.NeighborsBefore(*next_, relation_) +
                            (from - list_begin);
      CopyIndices(chunk.bytes.data() +
                      static_cast<size_t>(from - chunk.first) * index_bytes,
                  to - from, place);
      if (list_end > chunk_end) return;
    }
  }

 private:
  void CopyIndices(const std::byte* from, int64_t count, int64_t place) {
    const NodeId first = topology_.relations[relation_].first_source;
    std::byte* const to =
        out_ + static_cast<uint64_t>(place) * lists_.index_bytes();
    if (!lists_.wide()) {
      ConvertIndices<int32_t, int32_t>(from, count, first, to);
    } else if (topology_.files[relation_].index_bytes == 4) {
      ConvertIndices<int32_t, int64_t>(from, count, first, to);
    } else {
      ConvertIndices<int64_t, int64_t>(from, count, first, to);
    }
  }

  const StoredTopology& topology_;
  const JoinedLists& lists_;
  const std::vector<NodeId>& nodes_;
  const absl::Span<const int64_t> table_;
  std::byte* const out_;
  size_t relation_ = 0;
  std::vector<NodeId>::const_iterator next_;
  std::vector<NodeId>::const_iterator end_;
};

}  // namespace

absl::StatusOr<NeighborCache> NeighborCache::Allocate(const Shape& shape) {
  NeighborCache cache;
  const auto table_bytes = static_cast<uint64_t>(shape.num_nodes) * 8;
  const auto list_bytes =
      static_cast<uint64_t>(shape.num_neighbors) * (shape.wide ? 8 : 4);
  HEARTH_ASSIGN_OR_RETURN(
      cache.memory_, io::AlignedMemory::Allocate(table_bytes + list_bytes));
  const absl::Span<std::byte> bytes = cache.memory_.bytes();
  cache.table_ = {reinterpret_cast<const int64_t*>(bytes.data()),
                  static_cast<size_t>(shape.num_nodes)};
  cache.lists_ = bytes.data() + table_bytes;
  cache.wide_ = shape.wide;
  cache.num_lists_ = shape.num_lists;
  cache.num_neighbors_ = shape.num_neighbors;
  return cache;
}

absl::Span<int64_t> NeighborCache::mutable_table() {
  return {reinterpret_cast<int64_t*>(memory_.bytes().data()), table_.size()};
}

std::byte* NeighborCache::mutable_lists() {
  return memory_.bytes().data() + table_.size() * sizeof(int64_t);
}

absl::StatusOr<std::vector<NodeId>> NeighborCache::Choose(
    io::FileSystem& files, const StoredTopology& topology,
    const NeighborCacheOptions& options, std::stop_token stop) {
  const uint64_t table_bytes = TableBytes(topology);
  if (options.budget_bytes < table_bytes) return std::vector<NodeId>();
  const JoinedLists lists(topology);
  HEARTH_ASSIGN_OR_RETURN(std::vector<Ranked> ranked,
                          Weigh(files, topology, lists, options, stop));
  return ChooseWithin(options.budget_bytes - table_bytes, lists,
                      std::move(ranked));
}

absl::StatusOr<NeighborCache> NeighborCache::Build(
    io::FileSystem& files, const StoredTopology& topology,
    const NeighborCacheOptions& options, std::stop_token stop) {
  if (options.budget_bytes < TableBytes(topology)) return NeighborCache();
  HEARTH_ASSIGN_OR_RETURN(const std::vector<NodeId> chosen,
                          Choose(files, topology, options, stop));
  const JoinedLists lists(topology);
  Shape shape = {.num_nodes = topology.num_nodes(),
                 .num_lists = static_cast<int64_t>(chosen.size()),
                 .wide = lists.wide()};
  for (const NodeId node : chosen) shape.num_neighbors += lists.InDegree(node);
  HEARTH_ASSIGN_OR_RETURN(NeighborCache cache, Allocate(shape));
  const absl::Span<int64_t> table = cache.mutable_table();
  std::fill(table.begin(), table.end(), kAbsent);
  int64_t place = 0;
  for (const NodeId node : chosen) {
    table[node] = place;
    place += lists.InDegree(node);
  }
  if (chosen.empty()) return cache;
  ListCopier copier(topology, lists, chosen, table, cache.mutable_lists());
  for (size_t i = 0; i < topology.relations.size(); ++i) {
    copier.Begin(i);
    HEARTH_RETURN_IF_ERROR(
        ScanIndices(files, IndicesOf(topology, i), stop,
                    [&](const IndicesChunk& chunk) -> absl::Status {
                      // Counting out-degrees has checked the sources already.
                      if (!options.cross_counts.empty()) {
                        HEARTH_RETURN_IF_ERROR(VisitSourcesOf(
                            topology, i, chunk, [](NodeId /*source*/) {}));
                      }
                      copier.Copy(chunk);
                      return absl::OkStatus();
                    }));
  }
  return cache;
}

absl::Status NeighborCache::Dump(io::FileSystem& files,
                                 const std::string& path) const {
  const absl::Span<const std::byte> payload = memory_.bytes();
  std::vector<uint32_t> checksums;
  for (uint64_t block = 0; block < NumBlocks(payload.size()); ++block) {
    checksums.push_back(BlockCrc32c(BlockOf(payload, block), kFileId, block));
  }
  checksums.push_back(Crc32c(AsBytes<uint32_t>(checksums)));
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.num_nodes = static_cast<int64_t>(table_.size());
  header.num_lists = num_lists_;
  header.num_neighbors = num_neighbors_;
  header.wide = wide_;
  header.crc = HeaderCrc(header);
  std::vector<std::byte> page(kPageBytes);
  std::memcpy(page.data(), &header, sizeof(header));
  const auto write = [&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                            files.Create(path));
    HEARTH_RETURN_IF_ERROR(file->Allocate(kPageBytes + payload.size() +
                                          checksums.size() * sizeof(uint32_t)));
    HEARTH_RETURN_IF_ERROR(file->Append(page));
    for (uint64_t block = 0; block < NumBlocks(payload.size()); ++block) {
      HEARTH_RETURN_IF_ERROR(file->Append(BlockOf(payload, block)));
    }
    HEARTH_RETURN_IF_ERROR(file->Append(AsBytes<uint32_t>(checksums)));
    return file->Close();
  };
  const absl::Status status = write();
  // The first error tells more than an error of removing the file.
  if (!status.ok()) files.RemoveTree(path).IgnoreError();
  return status;
}

namespace {

absl::StatusOr<Header> ReadHeader(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory page,
                          io::AlignedMemory::Allocate(kPageBytes));
  HEARTH_RETURN_IF_ERROR(file.Read(0, page.bytes()));
  Header header;
  std::memcpy(&header, page.bytes().data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.crc != HeaderCrc(header)) {
    return Damaged(file.path(), 0, "the header");
  }
  return header;
}

/// Reads the checksums of all blocks of `payload_bytes`.
absl::StatusOr<std::vector<uint32_t>> ReadChecksums(io::ReadableFile& file,
                                                    uint64_t payload_bytes) {
  const uint64_t offset = kPageBytes + payload_bytes;
  std::vector<uint32_t> checksums(NumBlocks(payload_bytes) + 1);
  HEARTH_RETURN_IF_ERROR(
      file.Read(offset, {reinterpret_cast<std::byte*>(checksums.data()),
                         checksums.size() * sizeof(uint32_t)}));
  const uint32_t crc = checksums.back();
  checksums.pop_back();
  if (crc != Crc32c(AsBytes<uint32_t>(checksums))) {
    return Damaged(file.path(), offset, "the list of checksums");
  }
  return checksums;
}

}  // namespace

absl::StatusOr<NeighborCache> NeighborCache::Load(io::FileSystem& files,
                                                  const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(path));
  HEARTH_ASSIGN_OR_RETURN(const Header header, ReadHeader(*file));
  if (header.num_nodes == 0) return NeighborCache();
  HEARTH_ASSIGN_OR_RETURN(NeighborCache cache,
                          Allocate({.num_nodes = header.num_nodes,
                                    .num_lists = header.num_lists,
                                    .num_neighbors = header.num_neighbors,
                                    .wide = header.wide != 0}));
  const absl::Span<std::byte> payload = cache.memory_.bytes();
  HEARTH_ASSIGN_OR_RETURN(const std::vector<uint32_t> checksums,
                          ReadChecksums(*file, payload.size()));
  for (uint64_t block = 0; block < checksums.size(); ++block) {
    const uint64_t offset = kPageBytes + block * kBlockBytes;
    const absl::Span<std::byte> bytes =
        payload.subspan(block * kBlockBytes, kBlockBytes);
    // Damage in transit is gone at the second reading; damage on disk is not.
    for (int attempt = 0;; ++attempt) {
      HEARTH_RETURN_IF_ERROR(file->Read(offset, bytes));
      if (BlockCrc32c(bytes, kFileId, block) == checksums[block]) break;
      if (attempt == 1) return Damaged(path, offset, "a block");
    }
  }
  return cache;
}

}  // namespace hearth::sample
