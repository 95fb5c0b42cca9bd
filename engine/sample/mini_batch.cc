#include "engine/sample/mini_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

// The file: Header; input nodes; their in-degrees and, if present, types; for
// each block a BlockHeader, the number of edges of each destination, the
// indices and, if present, weights and types of edges; then, for a top layer, a
// TopHeader, its nodes, in-degrees, types and positions.

namespace hearth::sample {

namespace {

using store::NodeId;

constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'S', '4'};

struct Header {
  char magic[8];
  uint64_t epoch_key;
  uint64_t batch;
  int64_t num_seeds;
  int64_t num_nodes;
  uint64_t file_bytes;
  // 1 if there is a top layer; 1 if nodes have types.
  uint32_t has_top;
  uint32_t has_types;
  uint32_t num_blocks;
  // Bytes of an input node; bytes of an in-degree or a number of edges.
  uint16_t node_bytes;
  uint16_t count_bytes;
  // CRC32C of the input nodes; of everything after them; of the header up to
  // here.
  uint32_t nodes_crc;
  uint32_t rest_crc;
  uint32_t header_crc;
  uint32_t zero;

  uint64_t nodes_end() const {
    return sizeof(Header) + static_cast<uint64_t>(num_nodes) * node_bytes;
  }
};
static_assert(std::is_trivially_copyable_v<Header>);

struct BlockHeader {
  int64_t num_sources;
  int64_t num_destinations;
  int64_t num_edges;
  // num_edges or 0, each.
  int64_t num_weights;
  int64_t num_edge_types;
};

struct TopHeader {
  int64_t num_nodes;
  int64_t num_computed;
  int64_t num_pulled;
  int64_t num_pushed;
  int64_t sum_of_ages;
};

uint32_t HeaderCrc(const Header& header) {
  return Crc32c({reinterpret_cast<const std::byte*>(&header),
                 offsetof(Header, header_crc)});
}

uint64_t TopBytes(const TopLayer& top, const Header& header) {
  return sizeof(TopHeader) +
         top.nodes.size() * (header.node_bytes + header.count_bytes) +
         top.node_types.size() * sizeof(store::TypeId) +
         (top.computed.size() + top.pulled.size() + top.pushed.size()) *
             sizeof(int32_t);
}

// Bytes that each of `values` needs, 4 or 8.
uint16_t WidthOf(absl::Span<const int64_t> values, uint16_t at_least = 4) {
  for (const int64_t value : values) {
    if (value > INT32_MAX) return 8;
  }
  return at_least;
}

/// Writes into memory of the right size.
class Encoder {
 public:
  explicit Encoder(std::byte* at) : at_(at) {}

  template <typename T>
  void Raw(const T* values, size_t count) {
    if (count > 0) std::memcpy(at_, values, count * sizeof(T));
    at_ += count * sizeof(T);
  }

  void Integers(absl::Span<const int64_t> values, uint16_t width) {
    if (width == 8) return Raw(values.data(), values.size());
    for (const int64_t value : values) {
      const auto narrow = static_cast<int32_t>(value);
      Raw(&narrow, 1);
    }
  }

 private:
  std::byte* at_;
};

/// Reads checksummed bytes, never past their end.
class Decoder {
 public:
  explicit Decoder(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  bool Vector(int64_t count, std::vector<T>& values) {
    if (count < 0 || static_cast<uint64_t>(count) > bytes_.size() / sizeof(T)) {
      return false;
    }
    values.resize(static_cast<size_t>(count));
    return Raw(values.data(), values.size());
  }

  template <typename T>
  bool Raw(T* values, uint64_t count) {
    if (count > bytes_.size() / sizeof(T)) return false;
    if (count > 0) std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_.remove_prefix(count * sizeof(T));
    return true;
  }

  bool Integers(uint64_t count, uint16_t width, std::vector<int64_t>& values) {
    if (count > bytes_.size() / width) return false;
    values.resize(count);
    if (width == 8) return Raw(values.data(), count);
    for (int64_t& value : values) {
      int32_t narrow = 0;
      Raw(&narrow, 1);
      value = narrow;
    }
    return true;
  }

  bool at_end() const { return bytes_.empty(); }

 private:
  absl::Span<const std::byte> bytes_;
};

std::vector<int64_t> EdgeCounts(const Block& block) {
  std::vector<int64_t> counts(static_cast<size_t>(block.num_destinations));
  for (size_t row = 0; row < counts.size(); ++row) {
    counts[row] = block.indptr[row + 1] - block.indptr[row];
  }
  return counts;
}

void EncodeTop(const TopLayer& top, const Header& header, Encoder& encoder) {
  const TopHeader top_header = {.num_nodes = std::ssize(top.nodes),
                                .num_computed = std::ssize(top.computed),
                                .num_pulled = std::ssize(top.pulled),
                                .num_pushed = std::ssize(top.pushed),
                                .sum_of_ages = top.sum_of_ages};
  encoder.Raw(&top_header, 1);
  encoder.Integers(top.nodes, header.node_bytes);
  encoder.Integers(top.in_degrees, header.count_bytes);
  encoder.Raw(top.node_types.data(), top.node_types.size());
  for (const auto* positions : {&top.computed, &top.pulled, &top.pushed}) {
    encoder.Raw(positions->data(), positions->size());
  }
}

std::vector<std::byte> Encode(const MiniBatch& batch) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.epoch_key = batch.key.epoch_key;
  header.batch = batch.key.batch;
  header.num_seeds = batch.num_seeds;
  header.num_nodes = static_cast<int64_t>(batch.input_nodes.size());
  header.num_blocks = static_cast<uint32_t>(batch.blocks.size());
  header.node_bytes = WidthOf(batch.input_nodes);
  header.count_bytes = WidthOf(batch.in_degrees);
  header.has_types = batch.node_types.empty() ? 0 : 1;
  if (batch.top.has_value()) {
    header.has_top = 1;
    header.has_types |= batch.top->node_types.empty() ? 0 : 1;
    header.node_bytes = WidthOf(batch.top->nodes, header.node_bytes);
    header.count_bytes = WidthOf(batch.top->in_degrees, header.count_bytes);
  }
  std::vector<std::vector<int64_t>> counts;
  for (const Block& block : batch.blocks) {
    counts.push_back(EdgeCounts(block));
    header.count_bytes = WidthOf(counts.back(), header.count_bytes);
  }
  header.file_bytes = header.nodes_end() +
                      batch.in_degrees.size() * header.count_bytes +
                      batch.node_types.size() * sizeof(store::TypeId);
  for (const Block& block : batch.blocks) {
    header.file_bytes +=
        sizeof(BlockHeader) +
        static_cast<uint64_t>(block.num_destinations) * header.count_bytes +
        block.indices.size() * sizeof(int32_t) +
        block.weights.size() * sizeof(float) +
        block.edge_types.size() * sizeof(store::TypeId);
  }
  if (batch.top.has_value()) header.file_bytes += TopBytes(*batch.top, header);
  std::vector<std::byte> file(header.file_bytes);
  Encoder encoder(file.data() + sizeof(Header));
  encoder.Integers(batch.input_nodes, header.node_bytes);
  encoder.Integers(batch.in_degrees, header.count_bytes);
  encoder.Raw(batch.node_types.data(), batch.node_types.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const Block& block = batch.blocks[i];
    const BlockHeader block_header = {
        .num_sources = block.num_sources,
        .num_destinations = block.num_destinations,
        .num_edges = static_cast<int64_t>(block.indices.size()),
        .num_weights = static_cast<int64_t>(block.weights.size()),
        .num_edge_types = static_cast<int64_t>(block.edge_types.size())};
    encoder.Raw(&block_header, 1);
    encoder.Integers(counts[i], header.count_bytes);
    encoder.Raw(block.indices.data(), block.indices.size());
    encoder.Raw(block.weights.data(), block.weights.size());
    encoder.Raw(block.edge_types.data(), block.edge_types.size());
  }
  if (batch.top.has_value()) EncodeTop(*batch.top, header, encoder);
  const absl::Span<const std::byte> bytes = file;
  header.nodes_crc = Crc32c(
      bytes.subspan(sizeof(Header), header.nodes_end() - sizeof(Header)));
  header.rest_crc = Crc32c(bytes.subspan(header.nodes_end()));
  header.header_crc = HeaderCrc(header);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

absl::Status Damaged(const std::string& path, uint64_t offset,
                     absl::string_view problem) {
  return absl::DataLossError(
      absl::StrCat(path, ": the sample at byte ", offset, " ", problem));
}

/// Decodes the header at the start of `bytes` and checks that it is of batch
/// `key`.
absl::StatusOr<Header> DecodeHeader(absl::Span<const std::byte> bytes,
                                    const BatchKey& key,
                                    const std::string& path) {
  Header header;
  if (bytes.size() < sizeof(header)) return Damaged(path, 0, "is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.header_crc != HeaderCrc(header)) {
    return Damaged(path, 0, "is damaged (header)");
  }
  if (header.epoch_key != key.epoch_key || header.batch != key.batch) {
    return Damaged(path, 0,
                   absl::StrCat("is batch ", header.batch, " of epoch key ",
                                header.epoch_key, ", not batch ", key.batch,
                                " of ", key.epoch_key));
  }
  return header;
}

/// Decodes the input nodes of a file, of which `bytes` hold the header and the
/// nodes at least.
absl::Status DecodeNodes(absl::Span<const std::byte> bytes,
                         const Header& header, const std::string& path,
                         std::vector<NodeId>& nodes) {
  if (bytes.size() < header.nodes_end()) {
    return Damaged(path, bytes.size(), "is cut off");
  }
  bytes = bytes.subspan(sizeof(Header), header.nodes_end() - sizeof(Header));
  if (Crc32c(bytes) != header.nodes_crc ||
      !Decoder(bytes).Integers(static_cast<uint64_t>(header.num_nodes),
                               header.node_bytes, nodes)) {
    return Damaged(path, sizeof(Header), "is damaged (input nodes)");
  }
  return absl::OkStatus();
}

bool DecodeBlock(Decoder& decoder, uint16_t count_bytes, Block& block) {
  BlockHeader header;
  if (!decoder.Raw(&header, 1)) return false;
  block.num_sources = header.num_sources;
  block.num_destinations = header.num_destinations;
  std::vector<int64_t> counts;
  if (!decoder.Integers(static_cast<uint64_t>(header.num_destinations),
                        count_bytes, counts)) {
    return false;
  }
  block.indptr.reserve(counts.size() + 1);
  block.indptr.push_back(0);
  for (const int64_t count : counts) {
    block.indptr.push_back(block.indptr.back() + count);
  }
  if (block.indptr.back() != header.num_edges) return false;
  return decoder.Vector(header.num_edges, block.indices) &&
         decoder.Vector(header.num_weights, block.weights) &&
         decoder.Vector(header.num_edge_types, block.edge_types);
}

bool DecodeTop(Decoder& decoder, const Header& header, TopLayer& top) {
  TopHeader counts;
  if (!decoder.Raw(&counts, 1)) return false;
  top.sum_of_ages = counts.sum_of_ages;
  const auto num_nodes = static_cast<uint64_t>(counts.num_nodes);
  return decoder.Integers(num_nodes, header.node_bytes, top.nodes) &&
         decoder.Integers(num_nodes, header.count_bytes, top.in_degrees) &&
         decoder.Vector(header.has_types == 1 ? counts.num_nodes : 0,
                        top.node_types) &&
         decoder.Vector(counts.num_computed, top.computed) &&
         decoder.Vector(counts.num_pulled, top.pulled) &&
         decoder.Vector(counts.num_pushed, top.pushed);
}

absl::StatusOr<MiniBatch> Decode(absl::Span<const std::byte> bytes,
                                 const BatchKey& key, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes, key, path));
  if (bytes.size() != header.file_bytes) {
    return Damaged(
        path, std::min<uint64_t>(bytes.size(), header.file_bytes),
        absl::StrCat("has ", bytes.size(), " bytes, not ", header.file_bytes));
  }
  MiniBatch batch;
  batch.key = key;
  batch.num_seeds = header.num_seeds;
  HEARTH_RETURN_IF_ERROR(DecodeNodes(bytes, header, path, batch.input_nodes));
  bytes.remove_prefix(header.nodes_end());
  Decoder decoder(bytes);
  bool whole = Crc32c(bytes) == header.rest_crc &&
               decoder.Integers(batch.input_nodes.size(), header.count_bytes,
                                batch.in_degrees) &&
               decoder.Vector(header.has_types == 1 ? header.num_nodes : 0,
                              batch.node_types);
  batch.blocks.resize(whole ? header.num_blocks : 0);
  for (Block& block : batch.blocks) {
    whole = whole && DecodeBlock(decoder, header.count_bytes, block);
  }
  if (whole && header.has_top == 1) {
    whole = DecodeTop(decoder, header, batch.top.emplace());
  }
  if (!whole || !decoder.at_end()) {
    return Damaged(path, header.nodes_end(), "is damaged (degrees and blocks)");
  }
  return batch;
}

/// Calls `read`, and a second time after DATA_LOSS: bytes may have been damaged
/// on the way.
template <typename Read>
auto ReadTwice(Read read) {
  auto result = read();
  if constexpr (std::is_same_v<decltype(result), absl::Status>) {
    return absl::IsDataLoss(result) ? read() : result;
  } else {
    return absl::IsDataLoss(result.status()) ? read() : std::move(result);
  }
}

}  // namespace

absl::StatusOr<uint64_t> WriteSample(io::FileSystem& files,
                                     const std::string& path,
                                     const MiniBatch& batch) {
  const std::vector<std::byte> contents = Encode(batch);
  const auto write = [&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                            files.Create(path));
    HEARTH_RETURN_IF_ERROR(file->Allocate(contents.size()));
    HEARTH_RETURN_IF_ERROR(file->Append(contents));
    return file->Close();
  };
  const absl::Status status = write();
  if (status.ok()) return contents.size();
  // The first error tells more than an error of removing the file.
  files.RemoveTree(path).IgnoreError();
  return status;
}

absl::StatusOr<MiniBatch> ReadSample(io::FileSystem& files,
                                     const std::string& path,
                                     const BatchKey& key) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  std::vector<std::byte> bytes(info.size_bytes);
  return ReadTwice([&]() -> absl::StatusOr<MiniBatch> {
    HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(bytes)));
    return Decode(bytes, key, path);
  });
}

absl::Status ReadSampleNodes(io::FileSystem& files, const std::string& path,
                             const BatchKey& key, std::vector<NodeId>& nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  return ReadTwice([&]() -> absl::Status {
    std::vector<std::byte> bytes(
        std::min<uint64_t>(info.size_bytes, sizeof(Header)));
    HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(bytes)));
    HEARTH_ASSIGN_OR_RETURN(const Header header,
                            DecodeHeader(bytes, key, path));
    bytes.resize(std::min(info.size_bytes, header.nodes_end()));
    HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(bytes)));
    return DecodeNodes(bytes, header, path, nodes);
  });
}

}  // namespace hearth::sample
