#include "engine/strategy/packing/batch_code.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

// The format. Header; the input nodes; their in-degrees; for each block a
// BlockHeader, the number of edges of each destination, and the positions of
// the edges' sources. Version 2 adds to each block the number of weights, and
// the weights. Version 3 adds to each block the types of the edges, and behind
// the in-degrees the types of the input nodes. Version 4 is version 1, and
// version 5 is version 3, with a top layer behind the blocks: a TopHeader, its
// nodes, their in-degrees and types, the pulled positions, the pushed
// positions.

namespace hearth::strategy {

namespace {

using sample::BatchKey;
using sample::Block;
using sample::MiniBatch;
using sample::TopLayer;
using store::NodeId;

constexpr char kMagic[7] = {'H', 'e', 'a', 'r', 't', 'h', 'B'};

enum Version : char {
  kPlain = '1',
  kWithWeights = '2',
  kWithTypes = '3',
  kWithTop = '4',
  kWithTypesAndTop = '5'
};

struct Header {
  char magic[7];
  Version version;
  uint64_t epoch_key;
  uint64_t batch;
  int64_t num_seeds;
  int64_t num_nodes;
  uint64_t total_bytes;
  uint32_t num_blocks;
  // Bytes of an input node, and of an in-degree.
  uint16_t node_bytes;
  uint16_t degree_bytes;
  // CRC32C of the input nodes, of everything behind them, and of the header's
  // fields above.
  uint32_t nodes_crc;
  uint32_t rest_crc;
  uint32_t header_crc;
  uint32_t zero;

  uint64_t nodes_end() const {
    return sizeof(Header) + static_cast<uint64_t>(num_nodes) * node_bytes;
  }
  bool is_known() const {
    return std::memcmp(magic, kMagic, sizeof(magic)) == 0 &&
           version >= kPlain && version <= kWithTypesAndTop;
  }
  bool has_weights() const { return version == kWithWeights; }
  bool has_types() const {
    return version == kWithTypes || version == kWithTypesAndTop;
  }
  bool has_top() const {
    return version == kWithTop || version == kWithTypesAndTop;
  }
};
static_assert(std::is_trivially_copyable_v<Header>);

struct BlockHeader {
  int64_t num_sources;
  int64_t num_destinations;
  int64_t num_edges;
  // Bytes of a number of edges, and of a position.
  uint32_t count_bytes;
  uint32_t position_bytes;

  uint64_t body_bytes() const {
    return static_cast<uint64_t>(num_destinations) * count_bytes +
           static_cast<uint64_t>(num_edges) * position_bytes;
  }
};
static_assert(std::is_trivially_copyable_v<BlockHeader>);

struct TopHeader {
  uint64_t num_nodes;
  uint64_t num_pulled;
  uint64_t num_pushed;
  int64_t sum_of_ages;
};
static_assert(std::is_trivially_copyable_v<TopHeader>);

uint32_t HeaderCrc(const Header& header) {
  return Crc32c({reinterpret_cast<const std::byte*>(&header),
                 offsetof(Header, header_crc)});
}

std::vector<int64_t> EdgeCounts(const Block& block) {
  std::vector<int64_t> counts(static_cast<size_t>(block.num_destinations));
  for (size_t row = 0; row < counts.size(); ++row) {
    counts[row] = block.indptr[row + 1] - block.indptr[row];
  }
  return counts;
}

uint16_t NodeWidth(const MiniBatch& batch) {
  return static_cast<uint16_t>(
      PackedWidthOf(absl::MakeConstSpan(batch.input_nodes)));
}

// Appends numbers, behind one byte with their width.
template <typename Integer>
void AppendNumbers(const std::vector<Integer>& numbers,
                   std::vector<std::byte>& bytes) {
  const int width = PackedWidthOf(absl::MakeConstSpan(numbers));
  const size_t begin = bytes.size();
  bytes.resize(begin + 1 + numbers.size() * static_cast<size_t>(width));
  bytes[begin] = static_cast<std::byte>(width);
  Pack(absl::MakeConstSpan(numbers), width, bytes.data() + begin + 1);
}

// Takes `count` numbers of AppendNumbers from the beginning of `bytes`. False
// if `bytes` is too short.
template <typename Integer>
bool TakeNumbers(size_t count, absl::Span<const std::byte>& bytes,
                 std::vector<Integer>& numbers) {
  if (bytes.empty()) return false;
  const auto width = static_cast<size_t>(bytes[0]);
  bytes.remove_prefix(1);
  if (width > sizeof(Integer) || count * width > bytes.size()) return false;
  numbers.resize(count);
  Unpack(bytes.data(), static_cast<int>(width), absl::MakeSpan(numbers));
  bytes.remove_prefix(count * width);
  return true;
}

void AppendBlock(const Block& block, const Header& of,
                 std::vector<std::byte>& bytes) {
  const std::vector<int64_t> counts = EdgeCounts(block);
  BlockHeader header = {};
  header.num_sources = block.num_sources;
  header.num_destinations = block.num_destinations;
  header.num_edges = std::ssize(block.indices);
  header.count_bytes =
      static_cast<uint32_t>(PackedWidthOf(absl::MakeConstSpan(counts)));
  header.position_bytes =
      static_cast<uint32_t>(PackedWidthOf(absl::MakeConstSpan(block.indices)));
  const size_t begin = bytes.size();
  bytes.resize(begin + sizeof(header) + header.body_bytes());
  std::memcpy(&bytes[begin], &header, sizeof(header));
  std::byte* at = bytes.data() + begin + sizeof(header);
  at = Pack(absl::MakeConstSpan(counts), static_cast<int>(header.count_bytes),
            at);
  Pack(absl::MakeConstSpan(block.indices),
       static_cast<int>(header.position_bytes), at);
  if (of.has_types()) AppendNumbers(block.edge_types, bytes);
  if (!of.has_weights()) return;
  const uint64_t num_weights = block.weights.size();
  const auto* counted = reinterpret_cast<const std::byte*>(&num_weights);
  const auto* weights =
      reinterpret_cast<const std::byte*>(block.weights.data());
  bytes.insert(bytes.end(), counted, counted + sizeof(num_weights));
  bytes.insert(bytes.end(), weights, weights + num_weights * sizeof(float));
}

void AppendTop(const TopLayer& top, const Header& of,
               std::vector<std::byte>& bytes) {
  const TopHeader header = {.num_nodes = top.nodes.size(),
                            .num_pulled = top.pulled.size(),
                            .num_pushed = top.pushed.size(),
                            .sum_of_ages = top.sum_of_ages};
  const auto* begin = reinterpret_cast<const std::byte*>(&header);
  bytes.insert(bytes.end(), begin, begin + sizeof(header));
  AppendNumbers(top.nodes, bytes);
  AppendNumbers(top.in_degrees, bytes);
  if (of.has_types()) AppendNumbers(top.node_types, bytes);
  AppendNumbers(top.pulled, bytes);
  AppendNumbers(top.pushed, bytes);
}

// Takes the top layer from the beginning of `bytes`. False if there is none.
bool TakeTop(const Header& of, absl::Span<const std::byte>& bytes,
             TopLayer& top) {
  TopHeader header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  top.sum_of_ages = header.sum_of_ages;
  if (!TakeNumbers(header.num_nodes, bytes, top.nodes) ||
      !TakeNumbers(header.num_nodes, bytes, top.in_degrees) ||
      (of.has_types() &&
       !TakeNumbers(header.num_nodes, bytes, top.node_types)) ||
      !TakeNumbers(header.num_pulled, bytes, top.pulled) ||
      !TakeNumbers(header.num_pushed, bytes, top.pushed)) {
    return false;
  }
  // Nodes that are not pulled are computed.
  auto pulled = top.pulled.begin();
  for (int32_t i = 0; i < std::ssize(top.nodes); ++i) {
    if (pulled != top.pulled.end() && *pulled == i) {
      ++pulled;
    } else {
      top.computed.push_back(i);
    }
  }
  return true;
}

// Whether edges of some block have weights.
bool HasWeights(const MiniBatch& batch) {
  return std::any_of(batch.blocks.begin(), batch.blocks.end(),
                     [](const Block& block) { return !block.weights.empty(); });
}

// Also a batch without input nodes may have a top layer.
bool HasTypes(const MiniBatch& batch) {
  return !batch.node_types.empty() ||
         (batch.top.has_value() && !batch.top->node_types.empty());
}

Version VersionOf(const MiniBatch& batch) {
  if (batch.top.has_value()) {
    return HasTypes(batch) ? kWithTypesAndTop : kWithTop;
  }
  if (HasTypes(batch)) return kWithTypes;
  return HasWeights(batch) ? kWithWeights : kPlain;
}

constexpr absl::string_view kRestDamaged = "is damaged (degrees and blocks)";

absl::Status Damaged(uint64_t offset, absl::string_view problem) {
  return absl::DataLossError(
      absl::StrCat("the graph sample at byte ", offset, " ", problem));
}

absl::StatusOr<Header> DecodeHeader(absl::Span<const std::byte> bytes,
                                    const BatchKey& key) {
  Header header;
  if (bytes.size() < sizeof(header)) return Damaged(0, "is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!header.is_known() || header.header_crc != HeaderCrc(header)) {
    return Damaged(0, "is damaged (header)");
  }
  if (header.epoch_key != key.epoch_key || header.batch != key.batch) {
    return Damaged(0, absl::StrCat("is batch ", header.batch, " of epoch key ",
                                   header.epoch_key, ", not batch ", key.batch,
                                   " of ", key.epoch_key));
  }
  return header;
}

// The header of `bytes`, the whole encoded batch.
absl::StatusOr<Header> DecodeWholeHeader(absl::Span<const std::byte> bytes,
                                         const BatchKey& key) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes, key));
  if (bytes.size() == header.total_bytes) return header;
  return Damaged(0, absl::StrCat("has ", bytes.size(), " bytes, not ",
                                 header.total_bytes));
}

// Bytes of the packed input nodes.
absl::StatusOr<absl::Span<const std::byte>> CheckNodes(
    absl::Span<const std::byte> bytes, const Header& header) {
  if (bytes.size() < header.nodes_end()) {
    return Damaged(bytes.size(), "is cut off");
  }
  bytes = bytes.subspan(sizeof(Header), header.nodes_end() - sizeof(Header));
  if (Crc32c(bytes) != header.nodes_crc) {
    return Damaged(sizeof(Header), "is damaged (input nodes)");
  }
  return bytes;
}

absl::Status DecodeNodes(absl::Span<const std::byte> bytes,
                         const Header& header, std::vector<NodeId>& nodes) {
  HEARTH_ASSIGN_OR_RETURN(bytes, CheckNodes(bytes, header));
  nodes.resize(static_cast<size_t>(header.num_nodes));
  Unpack(bytes.data(), header.node_bytes, absl::MakeSpan(nodes));
  return absl::OkStatus();
}

/// Takes a block from the beginning of `bytes`. False if there is none.
bool TakeBlock(const Header& of, absl::Span<const std::byte>& bytes,
               Block& block) {
  BlockHeader header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (header.body_bytes() > bytes.size()) return false;
  block.num_sources = header.num_sources;
  block.num_destinations = header.num_destinations;
  std::vector<int64_t> counts(static_cast<size_t>(header.num_destinations));
  const std::byte* at =
      Unpack(bytes.data(), static_cast<int>(header.count_bytes),
             absl::MakeSpan(counts));
  block.indptr.reserve(counts.size() + 1);
  block.indptr.push_back(0);
  for (const int64_t count : counts) {
    block.indptr.push_back(block.indptr.back() + count);
  }
  block.indices.resize(static_cast<size_t>(header.num_edges));
  Unpack(at, static_cast<int>(header.position_bytes),
         absl::MakeSpan(block.indices));
  bytes.remove_prefix(header.body_bytes());
  if (of.has_types() &&
      !TakeNumbers(block.indices.size(), bytes, block.edge_types)) {
    return false;
  }
  if (of.has_weights()) {
    uint64_t num_weights = 0;
    if (bytes.size() < sizeof(num_weights)) return false;
    std::memcpy(&num_weights, bytes.data(), sizeof(num_weights));
    bytes.remove_prefix(sizeof(num_weights));
    if (num_weights > bytes.size() / sizeof(float)) return false;
    block.weights.resize(num_weights);
    // num_weights may be 0.
    std::copy_n(bytes.data(), num_weights * sizeof(float),
                reinterpret_cast<std::byte*>(block.weights.data()));
    bytes.remove_prefix(num_weights * sizeof(float));
  }
  return block.indptr.back() == header.num_edges;
}

}  // namespace

std::vector<std::byte> EncodeBatch(const MiniBatch& batch) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = VersionOf(batch);
  header.epoch_key = batch.key.epoch_key;
  header.batch = batch.key.batch;
  header.num_seeds = batch.num_seeds;
  header.num_nodes = std::ssize(batch.input_nodes);
  header.num_blocks = static_cast<uint32_t>(batch.blocks.size());
  header.node_bytes = NodeWidth(batch);
  header.degree_bytes = static_cast<uint16_t>(
      PackedWidthOf(absl::MakeConstSpan(batch.in_degrees)));
  std::vector<std::byte> bytes(header.nodes_end() +
                               batch.in_degrees.size() * header.degree_bytes);
  std::byte* at = Pack(absl::MakeConstSpan(batch.input_nodes),
                       header.node_bytes, bytes.data() + sizeof(header));
  Pack(absl::MakeConstSpan(batch.in_degrees), header.degree_bytes, at);
  if (header.has_types()) AppendNumbers(batch.node_types, bytes);
  for (const Block& block : batch.blocks) AppendBlock(block, header, bytes);
  if (header.has_top()) AppendTop(*batch.top, header, bytes);
  header.total_bytes = bytes.size();
  const absl::Span<const std::byte> all = bytes;
  header.nodes_crc =
      Crc32c(all.subspan(sizeof(header), header.nodes_end() - sizeof(header)));
  header.rest_crc = Crc32c(all.subspan(header.nodes_end()));
  header.header_crc = HeaderCrc(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

uint64_t EncodedNodesBytes(const MiniBatch& batch) {
  return sizeof(Header) + batch.input_nodes.size() * NodeWidth(batch);
}

absl::Status CheckBatch(absl::Span<const std::byte> bytes,
                        const BatchKey& key) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, DecodeWholeHeader(bytes, key));
  HEARTH_RETURN_IF_ERROR(CheckNodes(bytes, header).status());
  if (Crc32c(bytes.subspan(header.nodes_end())) == header.rest_crc) {
    return absl::OkStatus();
  }
  return Damaged(header.nodes_end(), kRestDamaged);
}

absl::StatusOr<MiniBatch> DecodeBatch(absl::Span<const std::byte> bytes,
                                      const BatchKey& key) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, DecodeWholeHeader(bytes, key));
  MiniBatch batch;
  batch.key = key;
  batch.num_seeds = header.num_seeds;
  HEARTH_RETURN_IF_ERROR(DecodeNodes(bytes, header, batch.input_nodes));
  bytes.remove_prefix(header.nodes_end());
  const uint64_t degrees_bytes =
      static_cast<uint64_t>(header.num_nodes) * header.degree_bytes;
  bool whole =
      Crc32c(bytes) == header.rest_crc && degrees_bytes <= bytes.size();
  if (whole) {
    batch.in_degrees.resize(batch.input_nodes.size());
    Unpack(bytes.data(), header.degree_bytes, absl::MakeSpan(batch.in_degrees));
    bytes.remove_prefix(degrees_bytes);
    batch.blocks.resize(header.num_blocks);
  }
  if (whole && header.has_types()) {
    whole = TakeNumbers(batch.input_nodes.size(), bytes, batch.node_types);
  }
  for (Block& block : batch.blocks) {
    whole = whole && TakeBlock(header, bytes, block);
  }
  if (whole && header.has_top()) {
    whole = TakeTop(header, bytes, batch.top.emplace());
  }
  if (!whole || !bytes.empty()) {
    return Damaged(header.nodes_end(), kRestDamaged);
  }
  return batch;
}

absl::Status DecodeBatchNodes(absl::Span<const std::byte> bytes,
                              const BatchKey& key, std::vector<NodeId>& nodes) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes, key));
  return DecodeNodes(bytes, header, nodes);
}

}  // namespace hearth::strategy
