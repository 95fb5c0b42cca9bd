#include "engine/sample/neighbor_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/sample/indices_scan.h"

// The file: a header of one page; the table and the lists as they are in
// memory; the CRC32C of each block of these; the CRC32C of those. Numbers are
// in the machine's own order: the file never leaves it.

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kBlockBytes = 1 << 20;
// Seeds the blocks' checksums.
constexpr uint64_t kFileId = 0x4E65696768626F72;
constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'N', '1'};

struct Header {
  char magic[8];
  int64_t num_nodes;
  int64_t num_lists;
  int64_t num_neighbors;
  int64_t wide;
  // The CRC32C of everything before.
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

IndicesArray IndicesOf(const StoredTopology& topology) {
  return {.path = topology.indices_path,
          .offset = topology.indices_offset,
          .count = topology.indptr.back(),
          .index_bytes = topology.index_bytes};
}

int64_t InDegree(const StoredTopology& topology, NodeId node) {
  return topology.indptr[node + 1] - topology.indptr[node];
}

/// Calls `visit` with each source of the chunk.
template <typename Index, typename Visit>
absl::Status VisitSources(const StoredTopology& topology,
                          const IndicesChunk& chunk, Visit visit) {
  const auto* indices = reinterpret_cast<const Index*>(chunk.bytes.data());
  for (int64_t i = 0; i < chunk.count; ++i) {
    if (indices[i] < 0 || indices[i] >= topology.num_nodes()) {
      return absl::DataLossError(absl::StrCat(
          topology.indices_path, ": neighbor ", indices[i], " at byte ",
          topology.indices_offset +
              static_cast<uint64_t>(chunk.first + i) * sizeof(Index),
          " is not one of ", topology.num_nodes(), " nodes"));
    }
    visit(indices[i]);
  }
  return absl::OkStatus();
}

template <typename Visit>
absl::Status VisitSourcesOf(const StoredTopology& topology,
                            const IndicesChunk& chunk, Visit visit) {
  return topology.index_bytes == 4
             ? VisitSources<int32_t>(topology, chunk, visit)
             : VisitSources<int64_t>(topology, chunk, visit);
}

/// Bytes of the table that finds lists.
uint64_t TableBytes(const StoredTopology& topology) {
  return static_cast<uint64_t>(topology.num_nodes()) * sizeof(int64_t);
}

/// A node, and how much its list is worth.
struct Ranked {
  double worth;
  NodeId node;
};

/// The nodes with in-neighbors, each with what `worth` tells of it.
template <typename Worth>
std::vector<Ranked> WithWorth(const StoredTopology& topology, Worth worth) {
  std::vector<Ranked> nodes;
  nodes.reserve(static_cast<size_t>(topology.num_nodes()));
  for (NodeId node = 0; node < topology.num_nodes(); ++node) {
    if (InDegree(topology, node) == 0) continue;
    nodes.push_back({.worth = worth(node), .node = node});
  }
  return nodes;
}

/// The same with the ratio of out-degree to in-degree.
absl::StatusOr<std::vector<Ranked>> WeighByRatio(io::FileSystem& files,
                                                 const StoredTopology& topology,
                                                 std::stop_token stop) {
  const auto num_nodes = static_cast<size_t>(topology.num_nodes());
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(num_nodes * sizeof(int64_t)));
  const absl::Span<int64_t> out_degrees(
      reinterpret_cast<int64_t*>(memory.bytes().data()), num_nodes);
  HEARTH_RETURN_IF_ERROR(ScanIndices(
      files, IndicesOf(topology), std::move(stop),
      [&](const IndicesChunk& chunk) {
        return VisitSourcesOf(topology, chunk,
                              [&](NodeId source) { ++out_degrees[source]; });
      }));
  return WithWorth(topology, [&](NodeId node) {
    return static_cast<double>(out_degrees[node]) /
           static_cast<double>(InDegree(topology, node));
  });
}

absl::StatusOr<std::vector<Ranked>> Weigh(io::FileSystem& files,
                                          const StoredTopology& topology,
                                          const NeighborCacheOptions& options,
                                          std::stop_token stop) {
  if (options.cross_counts.empty()) {
    return WeighByRatio(files, topology, std::move(stop));
  }
  return WithWorth(topology, [&](NodeId node) {
    return static_cast<double>(options.cross_counts[node]);
  });
}

/// The most worthwhile of `ranked` whose lists fit into `bytes`, ascending.
std::vector<NodeId> ChooseWithin(uint64_t bytes, const StoredTopology& topology,
                                 std::vector<Ranked> ranked) {
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.worth != b.worth ? a.worth > b.worth : a.node < b.node;
  });
  std::vector<NodeId> chosen;
  for (const Ranked& candidate : ranked) {
    const uint64_t list =
        static_cast<uint64_t>(InDegree(topology, candidate.node)) *
        static_cast<uint64_t>(topology.index_bytes);
    if (list > bytes) continue;
    bytes -= list;
    chosen.push_back(candidate.node);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Copies the lists of ascending nodes one behind the other, from a scan of all
/// lists. A list may reach over several chunks.
class ListCopier {
 public:
  ListCopier(const StoredTopology& topology, const std::vector<NodeId>& nodes,
             std::byte* out)
      : topology_(topology),
        next_(nodes.begin()),
        end_(nodes.end()),
        out_(out) {}

  void Copy(const IndicesChunk& chunk) {
    const auto index_bytes = static_cast<size_t>(topology_.index_bytes);
    const int64_t chunk_end = chunk.first + chunk.count;
    while (next_ != end_ && topology_.indptr[*next_] < chunk_end) {
      const int64_t list_end = topology_.indptr[*next_ + 1];
      const int64_t from = std::max(topology_.indptr[*next_], chunk.first);
      const int64_t to = std::min(list_end, chunk_end);
      const size_t bytes = static_cast<size_t>(to - from) * index_bytes;
      std::memcpy(out_,
                  chunk.bytes.data() +
                      static_cast<size_t>(from - chunk.first) * index_bytes,
                  bytes);
      out_ += bytes;
      if (list_end > chunk_end) break;
      ++next_;
    }
  }

 private:
  const StoredTopology& topology_;
  std::vector<NodeId>::const_iterator next_;
  const std::vector<NodeId>::const_iterator end_;
  std::byte* out_;
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
  HEARTH_ASSIGN_OR_RETURN(std::vector<Ranked> ranked,
                          Weigh(files, topology, options, std::move(stop)));
  return ChooseWithin(options.budget_bytes - table_bytes, topology,
                      std::move(ranked));
}

absl::StatusOr<NeighborCache> NeighborCache::Build(
    io::FileSystem& files, const StoredTopology& topology,
    const NeighborCacheOptions& options, std::stop_token stop) {
  if (options.budget_bytes < TableBytes(topology)) return NeighborCache();
  HEARTH_ASSIGN_OR_RETURN(const std::vector<NodeId> chosen,
                          Choose(files, topology, options, stop));
  Shape shape = {.num_nodes = topology.num_nodes(),
                 .num_lists = static_cast<int64_t>(chosen.size()),
                 .wide = topology.index_bytes == 8};
  for (const NodeId node : chosen) {
    shape.num_neighbors += InDegree(topology, node);
  }
  HEARTH_ASSIGN_OR_RETURN(NeighborCache cache, Allocate(shape));
  const absl::Span<int64_t> table = cache.mutable_table();
  std::fill(table.begin(), table.end(), kAbsent);
  int64_t place = 0;
  for (const NodeId node : chosen) {
    table[node] = place;
    place += InDegree(topology, node);
  }
  if (chosen.empty()) return cache;
  ListCopier copier(topology, chosen, cache.mutable_lists());
  HEARTH_RETURN_IF_ERROR(
      ScanIndices(files, IndicesOf(topology), std::move(stop),
                  [&](const IndicesChunk& chunk) -> absl::Status {
                    // Counting out-degrees has checked them already.
                    if (!options.cross_counts.empty()) {
                      HEARTH_RETURN_IF_ERROR(VisitSourcesOf(
                          topology, chunk, [](NodeId /*source*/) {}));
                    }
                    copier.Copy(chunk);
                    return absl::OkStatus();
                  }));
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
  // The first error is worth more than that of removing the file.
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

/// The checksums of the blocks of `payload_bytes`.
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
    // Damage on the way is gone at the second reading; damage on disk is not.
    for (int attempt = 0;; ++attempt) {
      HEARTH_RETURN_IF_ERROR(file->Read(offset, bytes));
      if (BlockCrc32c(bytes, kFileId, block) == checksums[block]) break;
      if (attempt == 1) return Damaged(path, offset, "a block");
    }
  }
  return cache;
}

}  // namespace hearth::sample
