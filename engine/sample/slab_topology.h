#ifndef HEARTH_ENGINE_SAMPLE_SLAB_TOPOLOGY_H_
#define HEARTH_ENGINE_SAMPLE_SLAB_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/array_parts.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"

/// A topology on disk, cut into slabs that fit into memory (SlabTopology), and
/// the neighbor lists of one slab (SlabLists).

namespace hearth::sample {

/// A range of nodes of one type.
struct Slab {
  size_t type = 0;
  /// Nodes [first, end), numbered among all nodes.
  store::NodeId first = 0;
  store::NodeId end = 0;
  /// Bytes of the nodes' offsets and lists, by all edge types into the type.
  uint64_t bytes = 0;

  bool operator==(const Slab&) const = default;
};

/// The topology of a dataset, of which nothing is in memory but the bounds of
/// its slabs and the checksums of its files. The files are read past the page
/// cache, and everything that is used of them is checked. Thread-safe.
class SlabTopology {
 public:
  /// One edge type on disk.
  struct Relation {
    /// Without a topology.
    store::Relation about;
    int64_t num_edges = 0;
    /// Bytes of an index: 4 or 8.
    uint64_t index_bytes = 0;
    store::ArrayParts indptr;
    store::ArrayParts indices;
  };

  /// Opens the dataset in `folder` and cuts its nodes into slabs of at most
  /// `slab_bytes` each, except for nodes that alone have more: reads all
  /// offsets once. `files` outlives the topology. DATA_LOSS, naming file and
  /// byte, for offsets that do not ascend from 0 to the number of edges;
  /// CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<SlabTopology>> Open(
      io::FileSystem& files, const std::string& folder,
      const store::Manifest& manifest, uint64_t slab_bytes,
      const std::stop_token& stop);

  /// The slab size for a dataset: 16 MiB, or 64 MiB where its topology has more
  /// than 4 GiB.
  static uint64_t SlabBytes(const store::Manifest& manifest);

  /// The most slabs of `slab_bytes` that a dataset is cut into.
  static int64_t MostSlabs(const store::Manifest& manifest,
                           uint64_t slab_bytes);

  /// Bytes of memory while the topology is open, and while it is opened.
  static uint64_t MemoryBytes(const store::Manifest& manifest,
                              uint64_t slab_bytes);

  /// Whether nodes or edges are of several types.
  bool is_typed() const { return typed_; }
  const store::NodeSpace& nodes() const { return nodes_; }
  /// The largest number of neighbors of a node by one edge type.
  int64_t largest_degree() const { return largest_degree_; }
  uint64_t slab_bytes() const { return slab_bytes_; }

  /// All edge types, in the order of the manifest.
  absl::Span<const Relation> relations() const { return relations_; }
  /// Edge types that lead to nodes of `type`, ascending.
  absl::Span<const size_t> into(size_t type) const { return into_[type]; }

  /// All slabs, in the order of their nodes.
  absl::Span<const Slab> slabs() const { return slabs_; }

  /// The slab of a node. REQUIRES: 0 <= node < nodes().num_nodes().
  size_t SlabOf(store::NodeId node) const {
    size_t slab = first_slabs_[static_cast<size_t>(node >> shift_)];
    while (slabs_[slab].end <= node) ++slab;
    return slab;
  }

  /// DATA_LOSS: the offsets of `node` by edge type `relation` are wrong.
  absl::Status NoRow(size_t relation, store::NodeId node, int64_t start,
                     int64_t end) const;
  /// DATA_LOSS: neighbor number `edge` of `relation` is not one of its sources.
  absl::Status NoSource(size_t relation, int64_t edge) const;

 private:
  SlabTopology() = default;

  absl::Status CutType(io::FileSystem& files, const std::string& folder,
                       const store::Manifest& manifest, size_t type,
                       const std::stop_token& stop);
  void Index();

  bool typed_ = false;
  uint64_t slab_bytes_ = 0;
  store::NodeSpace nodes_;
  std::vector<Relation> relations_;
  std::vector<std::vector<size_t>> into_;
  std::vector<Slab> slabs_;
  int64_t largest_degree_ = 0;
  // The slab of node i << shift_, for each i.
  int shift_ = 0;
  std::vector<uint32_t> first_slabs_;
};

/// The neighbor lists of one slab: all in memory, or read block by block as
/// they are asked for. Loaded by one thread at a time; then any number of
/// threads may look lists up, each through a SlabReader of its own.
class SlabLists {
 public:
  /// What of a slab is loaded.
  enum class Load {
    kNothing,  // Readers read the blocks that they need.
    kDegrees,  // Offsets alone.
    kLists,
  };

  /// RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<SlabLists> Make(const SlabTopology& topology);

  /// Bytes of memory of one.
  static uint64_t MemoryBytes(const store::Manifest& manifest,
                              uint64_t slab_bytes);

  /// Loads slab `number`, in place of another. REQUIRES: the slab is not larger
  /// than the topology's slab_bytes, unless `load` is kNothing.
  absl::Status Read(size_t number, Load load, const std::stop_token& stop);

  const Slab& slab() const { return *slab_; }

 private:
  friend class SlabReader;

  // The indices of edge type `which` from byte `begin` of their file's data on;
  // null if they are not loaded.
  const std::byte* Indices(size_t which, uint64_t begin) const {
    return load_ == Load::kLists ? loaded_[which].indices.At(begin) : nullptr;
  }

  // The parts of one edge type.
  struct Loaded {
    store::ArrayParts::Part offsets;
    store::ArrayParts::Part indices;
  };

  SlabLists(const SlabTopology& topology, io::AlignedMemory memory)
      : topology_(&topology), memory_(std::move(memory)) {}

  const SlabTopology* topology_;
  io::AlignedMemory memory_;
  const Slab* slab_ = nullptr;
  Load load_ = Load::kNothing;
  // One for each edge type into the slab's node type, in their order.
  std::vector<Loaded> loaded_;
};

/// Looks up lists of slabs. Single-owner: it keeps the blocks that it read
/// last.
class SlabReader {
 public:
  /// Bytes that are read at once at most, the ends of blocks apart.
  static constexpr uint64_t kWindowBytes = 256 << 10;

  SlabReader(const SlabTopology& topology, std::stop_token stop)
      : topology_(topology), stop_(std::move(stop)) {}

  /// Bytes of memory of one.
  static uint64_t MemoryBytes(const store::Manifest& manifest);

  /// One neighbor list: neighbors [start, start + degree) of an edge type.
  struct List {
    int64_t start = 0;
    int64_t degree = 0;
  };

  /// Prefetches what Find and Pick touch of the lists of `node`, where they are
  /// loaded.
  void PrefetchOffsets(const SlabLists& lists, store::NodeId node) const;
  void PrefetchIndices(const SlabLists& lists, store::NodeId node) const;

  /// The list of `node` by the edge type number `which` of those into its type.
  absl::StatusOr<List> Find(const SlabLists& lists, store::NodeId node,
                            size_t which);

  /// Calls `take(source)`, numbered among all nodes, for each neighbor i of
  /// `list` for which `draw(pick)` calls `pick(i)`. `whole`: these are all.
  template <typename Draw, typename Take>
  absl::Status Pick(const SlabLists& lists, size_t which, const List& list,
                    bool whole, Draw draw, Take take) {
    const size_t number = topology_.into(lists.slab().type)[which];
    const SlabTopology::Relation& relation = topology_.relations()[number];
    const uint64_t size = relation.index_bytes;
    const auto first = static_cast<uint64_t>(list.start) * size;
    const std::byte* const loaded = lists.Indices(which, first);
    absl::Status status;
    draw([&](int64_t i) {
      if (!status.ok()) return;
      const uint64_t place = static_cast<uint64_t>(i) * size;
      const std::byte* index = loaded + place;
      if (loaded == nullptr) {
        const uint64_t rest = static_cast<uint64_t>(list.degree) * size - place;
        const absl::StatusOr<const std::byte*> read =
            At(relation.indices, first + place, size, whole ? rest : size,
               indices_);
        if (!read.ok()) {
          status = read.status();
          return;
        }
        index = *read;
      }
      const int64_t source = Decode(index, size);
      if (source < 0 || source >= relation.about.num_sources) {
        status = topology_.NoSource(number, list.start + i);
        return;
      }
      take(relation.about.first_source + source);
    });
    return status;
  }

 private:
  // The part of a file that was read last.
  struct Window {
    const store::ArrayParts* file = nullptr;
    store::ArrayParts::Part part;
    io::AlignedMemory memory;
  };

  static int64_t Decode(const std::byte* at, uint64_t bytes) {
    if (bytes == sizeof(int32_t)) {
      int32_t narrow;
      std::memcpy(&narrow, at, sizeof(narrow));
      return narrow;
    }
    int64_t wide;
    std::memcpy(&wide, at, sizeof(wide));
    return wide;
  }

  // The bytes [begin, begin + count) of a file's data; where they are not in
  // the window, this reads up to `ahead` bytes from `begin` on into it.
  absl::StatusOr<const std::byte*> At(const store::ArrayParts& file,
                                      uint64_t begin, uint64_t count,
                                      uint64_t ahead, Window& window);

  const SlabTopology& topology_;
  const std::stop_token stop_;
  Window offsets_;
  Window indices_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SLAB_TOPOLOGY_H_
