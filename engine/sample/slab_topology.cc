#include "engine/sample/slab_topology.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/stored_array.h"

namespace hearth::sample {

namespace {

using store::ArrayFile;
using store::ArrayParts;
using store::ArrayStream;
using store::NodeId;

constexpr uint64_t kOffsetBytes = sizeof(int64_t);
constexpr uint64_t kSmallSlabBytes = uint64_t{16} << 20;
constexpr uint64_t kLargeSlabBytes = uint64_t{64} << 20;
constexpr uint64_t kLargeTopologyBytes = uint64_t{4} << 30;
// Nodes of a slab are numbered within it by 4 bytes.
constexpr int64_t kMostSlabNodes = int64_t{1} << 31;
// Nodes between two checks of the stop token.
constexpr NodeId kStopEvery = 1 << 16;
// Entries of the table by which slabs are found, at most.
constexpr int64_t kIndexEntries = 1 << 14;

int64_t LoadOffset(const std::byte* at) {
  int64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

uint64_t TopologyBytes(const store::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    bytes += type.indptr.file_size_bytes + type.indices.file_size_bytes;
  }
  return bytes;
}

// Memory of a stream of offsets: eight blocks at least.
uint64_t StreamBytes(const ArrayFile& indptr) {
  return std::max<uint64_t>(1 << 20, 8 * uint64_t{indptr.crc_block_bytes}) +
         (64 << 10);
}

// The most edge types into one node type.
uint64_t MostInto(const store::Manifest& manifest) {
  uint64_t most = 0;
  for (const store::NodeTypeEntry& node_type : manifest.node_types) {
    most = std::max<uint64_t>(
        most, std::count_if(manifest.edge_types.begin(),
                            manifest.edge_types.end(), [&](const auto& type) {
                              return type.destination_type == node_type.name;
                            }));
  }
  return most;
}

// The largest blocks of the topology's files.
const ArrayFile& LargestBlocks(const store::Manifest& manifest) {
  const ArrayFile* largest = &manifest.edge_types.front().indptr;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    for (const ArrayFile* array : {&type.indptr, &type.indices}) {
      if (array->crc_block_bytes > largest->crc_block_bytes) largest = array;
    }
  }
  return *largest;
}

// The offsets of an edge type, one after the other. Single-owner.
class OffsetStream {
 public:
  static absl::StatusOr<OffsetStream> Open(io::FileSystem& files,
                                           const std::string& folder,
                                           const ArrayFile& indptr,
                                           int64_t num_edges,
                                           const std::stop_token& stop) {
    OffsetStream stream;
    HEARTH_ASSIGN_OR_RETURN(
        stream.stream_,
        ArrayStream::Open(files, folder, indptr, stop, StreamBytes(indptr)));
    stream.place_ = indptr.data_offset;
    stream.num_edges_ = num_edges;
    HEARTH_ASSIGN_OR_RETURN(const int64_t degree, stream.Next());
    if (degree != 0) return stream.Wrong(degree);
    return stream;
  }

  // The next offset less the one before; the first offset, at first.
  absl::StatusOr<int64_t> Next() {
    if (buffer_.empty()) {
      HEARTH_ASSIGN_OR_RETURN(buffer_, stream_->Next(kChunk));
      if (buffer_.size() < kOffsetBytes) return Wrong(last_);
    }
    const int64_t offset = LoadOffset(buffer_.data());
    buffer_.remove_prefix(kOffsetBytes);
    if (offset < last_ || offset > num_edges_) return Wrong(offset);
    place_ += kOffsetBytes;
    return offset - std::exchange(last_, offset);
  }

  absl::Status CheckEnd() const {
    if (last_ == num_edges_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        stream_->path(), ": indptr does not span the ", num_edges_, " edges"));
  }

 private:
  static constexpr uint64_t kChunk = 64 << 10;

  absl::Status Wrong(int64_t offset) const {
    return absl::DataLossError(absl::StrCat(
        stream_->path(), ": the offset at byte ", place_, " is ", offset,
        ", which does not ascend from ", last_, " to ", num_edges_));
  }

  std::unique_ptr<ArrayStream> stream_;
  absl::Span<const std::byte> buffer_;
  // Of the next offset in the file.
  uint64_t place_ = 0;
  int64_t last_ = 0;
  int64_t num_edges_ = 0;
};

}  // namespace

uint64_t SlabTopology::SlabBytes(const store::Manifest& manifest) {
  return TopologyBytes(manifest) > kLargeTopologyBytes ? kLargeSlabBytes
                                                       : kSmallSlabBytes;
}

int64_t SlabTopology::MostSlabs(const store::Manifest& manifest,
                                uint64_t slab_bytes) {
  // Two neighboring slabs of a type have more than one has space for.
  int64_t slabs =
      static_cast<int64_t>(2 * TopologyBytes(manifest) / slab_bytes) +
      2 * std::ssize(manifest.node_types);
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    slabs += type.num_nodes / kMostSlabNodes;
  }
  return slabs;
}

uint64_t SlabTopology::MemoryBytes(const store::Manifest& manifest,
                                   uint64_t slab_bytes) {
  uint64_t bytes = static_cast<uint64_t>(MostSlabs(manifest, slab_bytes)) * 2 *
                       sizeof(Slab) +
                   kIndexEntries * sizeof(uint32_t);
  uint64_t largest_stream = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    largest_stream = std::max(largest_stream, StreamBytes(type.indptr));
    for (const ArrayFile* array : {&type.indptr, &type.indices}) {
      bytes += store::NumBlocks(array->file_size_bytes - array->data_offset,
                                array->crc_block_bytes) *
               sizeof(uint32_t);
    }
  }
  return bytes + MostInto(manifest) * largest_stream;
}

absl::StatusOr<std::unique_ptr<SlabTopology>> SlabTopology::Open(
    io::FileSystem& files, const std::string& folder,
    const store::Manifest& manifest, uint64_t slab_bytes,
    const std::stop_token& stop) {
  auto topology = std::unique_ptr<SlabTopology>(new SlabTopology());
  topology->typed_ = manifest.is_typed();
  topology->slab_bytes_ = slab_bytes;
  topology->nodes_ = store::NodeSpace(manifest);
  topology->into_.resize(manifest.node_types.size());
  for (size_t i = 0; i < manifest.edge_types.size(); ++i) {
    const store::EdgeTypeEntry& entry = manifest.edge_types[i];
    HEARTH_ASSIGN_OR_RETURN(
        ArrayParts indptr, ArrayParts::Open(files, folder, entry.indptr, stop));
    HEARTH_ASSIGN_OR_RETURN(
        ArrayParts indices,
        ArrayParts::Open(files, folder, entry.indices, stop));
    topology->relations_.push_back(
        {.about = store::RelationAt(manifest, topology->nodes_, i),
         .num_edges = entry.num_edges,
         .index_bytes =
             static_cast<uint64_t>(store::SizeOf(entry.indices.dtype)),
         .indptr = std::move(indptr),
         .indices = std::move(indices)});
    for (size_t type = 0; type < manifest.node_types.size(); ++type) {
      if (manifest.node_types[type].name != entry.destination_type) continue;
      topology->into_[type].push_back(i);
    }
  }
  for (size_t type = 0; type < manifest.node_types.size(); ++type) {
    HEARTH_RETURN_IF_ERROR(
        topology->CutType(files, folder, manifest, type, stop));
  }
  topology->Index();
  return topology;
}

absl::Status SlabTopology::CutType(io::FileSystem& files,
                                   const std::string& folder,
                                   const store::Manifest& manifest, size_t type,
                                   const std::stop_token& stop) {
  const NodeId end = nodes_.First(type + 1);
  if (nodes_.First(type) == end) return absl::OkStatus();
  std::vector<OffsetStream> streams;
  std::vector<uint64_t> index_bytes;
  for (const size_t relation : into_[type]) {
    const store::EdgeTypeEntry& entry = manifest.edge_types[relation];
    HEARTH_ASSIGN_OR_RETURN(
        OffsetStream stream,
        OffsetStream::Open(files, folder, entry.indptr, entry.num_edges, stop));
    streams.push_back(std::move(stream));
    index_bytes.push_back(relations_[relation].index_bytes);
  }
  // The offset behind the last node belongs to each slab.
  const uint64_t fixed = streams.size() * kOffsetBytes;
  Slab slab = {.type = type,
               .first = nodes_.First(type),
               .end = nodes_.First(type),
               .bytes = fixed};
  for (NodeId node = slab.first; node < end; ++node) {
    if (node % kStopEvery == 0 && stop.stop_requested()) {
      return absl::CancelledError("cutting the topology: stopped on request");
    }
    uint64_t bytes = fixed;
    for (size_t i = 0; i < streams.size(); ++i) {
      HEARTH_ASSIGN_OR_RETURN(const int64_t degree, streams[i].Next());
      largest_degree_ = std::max(largest_degree_, degree);
      bytes += static_cast<uint64_t>(degree) * index_bytes[i];
    }
    if (node > slab.first && (slab.bytes + bytes > slab_bytes_ ||
                              node - slab.first == kMostSlabNodes)) {
      slabs_.push_back(slab);
      slab.first = node;
      slab.bytes = fixed;
    }
    slab.end = node + 1;
    slab.bytes += bytes;
  }
  slabs_.push_back(slab);
  for (const OffsetStream& stream : streams) {
    HEARTH_RETURN_IF_ERROR(stream.CheckEnd());
  }
  return absl::OkStatus();
}

void SlabTopology::Index() {
  const int64_t num_nodes = nodes_.num_nodes();
  while ((num_nodes >> shift_) >= kIndexEntries) ++shift_;
  size_t slab = 0;
  for (NodeId node = 0; node < num_nodes; node += NodeId{1} << shift_) {
    while (slabs_[slab].end <= node) ++slab;
    first_slabs_.push_back(static_cast<uint32_t>(slab));
  }
}

absl::Status SlabTopology::NoRow(size_t relation, NodeId node, int64_t start,
                                 int64_t end) const {
  const ArrayParts& indptr = relations_[relation].indptr;
  const auto place = static_cast<uint64_t>(
      node - relations_[relation].about.first_destination);
  return absl::DataLossError(absl::StrCat(
      indptr.path(), ": the offsets at byte ",
      indptr.array().data_offset + place * kOffsetBytes, " are ", start,
      " and ", end, ", of ", relations_[relation].num_edges, " edges"));
}

absl::Status SlabTopology::NoSource(size_t relation, int64_t edge) const {
  const Relation& of = relations_[relation];
  return absl::DataLossError(
      absl::StrCat(of.indices.path(), ": the neighbor at byte ",
                   of.indices.array().data_offset +
                       static_cast<uint64_t>(edge) * of.index_bytes,
                   " is not one of ", of.about.num_sources, " nodes"));
}

uint64_t SlabLists::MemoryBytes(const store::Manifest& manifest,
                                uint64_t slab_bytes) {
  const uint64_t parts = 2 * MostInto(manifest);
  if (parts == 0) return 0;
  return slab_bytes +
         parts * ArrayParts::MemoryBytes(LargestBlocks(manifest), 4096);
}

absl::StatusOr<SlabLists> SlabLists::Make(const SlabTopology& topology) {
  // No more than the largest slab needs.
  uint64_t most = 0;
  for (const Slab& slab : topology.slabs()) {
    if (slab.bytes > topology.slab_bytes()) continue;
    uint64_t bytes = slab.bytes;
    for (const size_t relation : topology.into(slab.type)) {
      const SlabTopology::Relation& of = topology.relations()[relation];
      bytes += ArrayParts::MemoryBytes(of.indptr.array(), 4096) +
               ArrayParts::MemoryBytes(of.indices.array(), 4096);
    }
    most = std::max(most, bytes);
  }
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(most));
  return SlabLists(topology, std::move(memory));
}

absl::Status SlabLists::Read(size_t number, Load load,
                             const std::stop_token& stop) {
  slab_ = &topology_->slabs()[number];
  load_ = load;
  loaded_.clear();
  if (load == Load::kNothing) return absl::OkStatus();
  absl::Span<std::byte> free = memory_.bytes();
  const auto read = [&](const ArrayParts& file, uint64_t begin,
                        uint64_t count) -> absl::StatusOr<ArrayParts::Part> {
    auto part = file.Read(begin, count, free, stop);
    free.remove_prefix(std::min<uint64_t>(
        free.size(), ArrayParts::MemoryBytes(file.array(), count)));
    return part;
  };
  for (const size_t relation : topology_->into(slab_->type)) {
    const SlabTopology::Relation& of = topology_->relations()[relation];
    const auto first =
        static_cast<uint64_t>(slab_->first - of.about.first_destination);
    const auto nodes = static_cast<uint64_t>(slab_->end - slab_->first);
    Loaded& loaded = loaded_.emplace_back();
    HEARTH_ASSIGN_OR_RETURN(
        loaded.offsets,
        read(of.indptr, first * kOffsetBytes, (nodes + 1) * kOffsetBytes));
    if (load == Load::kDegrees) continue;
    const int64_t start = LoadOffset(loaded.offsets.At(first * kOffsetBytes));
    const int64_t end =
        LoadOffset(loaded.offsets.At((first + nodes) * kOffsetBytes));
    if (start < 0 || end < start || end > of.num_edges ||
        ArrayParts::MemoryBytes(of.indices.array(),
                                static_cast<uint64_t>(end - start) *
                                    of.index_bytes) > free.size()) {
      return topology_->NoRow(relation, slab_->first, start, end);
    }
    HEARTH_ASSIGN_OR_RETURN(
        loaded.indices,
        read(of.indices, static_cast<uint64_t>(start) * of.index_bytes,
             static_cast<uint64_t>(end - start) * of.index_bytes));
  }
  return absl::OkStatus();
}

uint64_t SlabReader::MemoryBytes(const store::Manifest& manifest) {
  if (manifest.edge_types.empty()) return 0;
  return 2 * ArrayParts::MemoryBytes(LargestBlocks(manifest), kWindowBytes);
}

void SlabReader::PrefetchOffsets(const SlabLists& lists, NodeId node) const {
  for (size_t which = 0; which < lists.loaded_.size(); ++which) {
    const size_t relation = topology_.into(lists.slab().type)[which];
    const auto number = static_cast<uint64_t>(
        node - topology_.relations()[relation].about.first_destination);
    __builtin_prefetch(lists.loaded_[which].offsets.At(number * kOffsetBytes));
  }
}

void SlabReader::PrefetchIndices(const SlabLists& lists, NodeId node) const {
  if (lists.load_ != SlabLists::Load::kLists) return;
  for (size_t which = 0; which < lists.loaded_.size(); ++which) {
    const SlabLists::Loaded& loaded = lists.loaded_[which];
    const size_t number = topology_.into(lists.slab().type)[which];
    const SlabTopology::Relation& relation = topology_.relations()[number];
    const auto row =
        static_cast<uint64_t>(node - relation.about.first_destination);
    const auto start = static_cast<uint64_t>(
        LoadOffset(loaded.offsets.At(row * kOffsetBytes)));
    __builtin_prefetch(loaded.indices.At(start * relation.index_bytes));
  }
}

absl::StatusOr<SlabReader::List> SlabReader::Find(const SlabLists& lists,
                                                  NodeId node, size_t which) {
  const size_t number = topology_.into(lists.slab().type)[which];
  const SlabTopology::Relation& relation = topology_.relations()[number];
  const uint64_t begin =
      static_cast<uint64_t>(node - relation.about.first_destination) *
      kOffsetBytes;
  const std::byte* offsets = nullptr;
  if (lists.load_ != SlabLists::Load::kNothing) {
    offsets = lists.loaded_[which].offsets.At(begin);
  } else {
    HEARTH_ASSIGN_OR_RETURN(
        offsets, At(relation.indptr, begin, 2 * kOffsetBytes, 2 * kOffsetBytes,
                    offsets_));
  }
  const int64_t start = LoadOffset(offsets);
  const int64_t end = LoadOffset(offsets + kOffsetBytes);
  // Of a slab that is loaded, nothing lies outside.
  const ArrayParts::Part* const loaded = lists.load_ == SlabLists::Load::kLists
                                             ? &lists.loaded_[which].indices
                                             : nullptr;
  if (start < 0 || end < start || end > relation.num_edges ||
      (loaded != nullptr && start < end &&
       !loaded->Has(static_cast<uint64_t>(start) * relation.index_bytes,
                    static_cast<uint64_t>(end) * relation.index_bytes))) {
    return topology_.NoRow(number, node, start, end);
  }
  return List{.start = start, .degree = end - start};
}

absl::StatusOr<const std::byte*> SlabReader::At(const ArrayParts& file,
                                                uint64_t begin, uint64_t count,
                                                uint64_t ahead,
                                                Window& window) {
  if (window.file != &file || !window.part.Has(begin, begin + count)) {
    ahead = std::clamp(ahead, count, kWindowBytes);
    const uint64_t bytes = ArrayParts::MemoryBytes(file.array(), kWindowBytes);
    if (window.memory.bytes().size() < bytes) {
      HEARTH_ASSIGN_OR_RETURN(window.memory,
                              io::AlignedMemory::Allocate(bytes));
    }
    window.file = nullptr;
    HEARTH_ASSIGN_OR_RETURN(
        window.part, file.Read(begin, ahead, window.memory.bytes(), stop_));
    window.file = &file;
  }
  return window.part.At(begin);
}

}  // namespace hearth::sample
