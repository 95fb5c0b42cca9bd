#include "engine/store/edge_source.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/store/shape.h"

namespace hearth::store {
namespace {

bool IsInRange(int64_t node, int64_t num_nodes) {
  return static_cast<uint64_t>(node) < static_cast<uint64_t>(num_nodes);
}

/// (2, 2) counts as two rows of two edges.
bool HasTwoRows(const NpyReader& edges) { return edges.header().shape[0] == 2; }

/// One row of all sources, then one of all destinations, in the file's order.
bool IsPlanar(const NpyReader& edges) {
  return HasTwoRows(edges) != edges.header().fortran_order;
}

class NpyEdgeSource final : public EdgeSource {
 public:
  NpyEdgeSource(NpyReader& reader, int64_t num_nodes)
      : reader_(reader),
        num_nodes_(num_nodes),
        num_edges_(NumEdges(reader)),
        planar_(IsPlanar(reader)) {}

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(planar_ ? ReadPlanar(first, block)
                                   : ReadInterleaved(first, block));
    for (size_t i = 0; i < block.size(); ++i) {
      if (IsInRange(block.sources[i], num_nodes_) &&
          IsInRange(block.destinations[i], num_nodes_)) {
        continue;
      }
      return OutOfRange(first + static_cast<int64_t>(i), block.sources[i],
                        block.destinations[i]);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadPlanar(int64_t first, EdgeBlock& block) {
    HEARTH_RETURN_IF_ERROR(
        reader_.ReadInts(first, absl::MakeSpan(block.sources)));
    return reader_.ReadInts(num_edges_ + first,
                            absl::MakeSpan(block.destinations));
  }

  absl::Status ReadInterleaved(int64_t first, EdgeBlock& block) {
    pairs_.resize(2 * block.size());
    HEARTH_RETURN_IF_ERROR(reader_.ReadInts(2 * first, absl::MakeSpan(pairs_)));
    for (size_t i = 0; i < block.size(); ++i) {
      block.sources[i] = pairs_[2 * i];
      block.destinations[i] = pairs_[2 * i + 1];
    }
    return absl::OkStatus();
  }

  absl::Status OutOfRange(int64_t edge, int64_t source,
                          int64_t destination) const {
    const int64_t end = IsInRange(source, num_nodes_) ? 1 : 0;
    const int64_t position = planar_ ? end * num_edges_ + edge : 2 * edge + end;
    return reader_.ErrorAt(
        position, absl::StrCat("is ", end == 0 ? source : destination,
                               "; node ids are 0 .. ", num_nodes_ - 1));
  }

  NpyReader& reader_;
  const int64_t num_nodes_;
  const int64_t num_edges_;
  const bool planar_;
  std::vector<int64_t> pairs_;
};

bool FitsInt32(int64_t num_nodes) { return num_nodes <= INT32_MAX; }

template <typename Id>
void AppendPair(int64_t source, int64_t destination,
                std::vector<std::byte>& out) {
  const Id pair[2] = {static_cast<Id>(source), static_cast<Id>(destination)};
  const auto* bytes = reinterpret_cast<const std::byte*>(pair);
  out.insert(out.end(), bytes, bytes + sizeof(pair));
}

template <typename Id>
void UnpackPairs(const std::vector<std::byte>& raw, EdgeBlock& block) {
  for (size_t i = 0; i < block.size(); ++i) {
    Id pair[2];
    std::memcpy(pair, raw.data() + i * sizeof(pair), sizeof(pair));
    block.sources[i] = pair[0];
    block.destinations[i] = pair[1];
  }
}

class ScratchEdgeSource final : public EdgeSource {
 public:
  ScratchEdgeSource(io::ReadableFile& file, int64_t num_nodes,
                    const ScratchExtent& extent)
      : file_(file), num_nodes_(num_nodes), extent_(extent) {}

  int64_t num_edges() const override { return extent_.num_edges; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    const int64_t edge_bytes = ScratchEdgeBytes(num_nodes_);
    const int64_t position = (extent_.first_edge + first) * edge_bytes;
    raw_.resize(static_cast<size_t>(count * edge_bytes));
    HEARTH_RETURN_IF_ERROR(
        file_.Read(static_cast<uint64_t>(position), absl::MakeSpan(raw_)));
    pass_crc_ = Crc32c(raw_, first == 0 ? 0 : pass_crc_);
    if (first + count == extent_.num_edges && pass_crc_ != extent_.crc32c) {
      return Damaged();
    }
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    if (FitsInt32(num_nodes_)) {
      UnpackPairs<int32_t>(raw_, block);
    } else {
      UnpackPairs<int64_t>(raw_, block);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Damaged() const {
    return absl::DataLossError(
        absl::StrCat(file_.path(), ": edges ", extent_.first_edge, " .. ",
                     extent_.first_edge + extent_.num_edges - 1,
                     " are damaged (their checksum does not match)"));
  }

  io::ReadableFile& file_;
  const int64_t num_nodes_;
  const ScratchExtent extent_;
  std::vector<std::byte> raw_;
  uint32_t pass_crc_ = 0;
};

}  // namespace

absl::Status CheckEdgeHeader(const NpyReader& edges) {
  const NpyHeader& header = edges.header();
  if (header.type.kind == NpyType::Kind::kFloat ||
      header.type.kind == NpyType::Kind::kBool) {
    return edges.Error(absl::StrCat("has ", Name(header.type),
                                    " elements; node ids are integers"));
  }
  const std::vector<int64_t>& shape = header.shape;
  if (shape.size() == 2 && (shape[0] == 2 || shape[1] == 2)) {
    return absl::OkStatus();
  }
  return edges.Error(absl::StrCat("has shape ", FormatShape(shape),
                                  "; (2, E) or (E, 2) is needed"));
}

int64_t NumEdges(const NpyReader& edges) {
  return edges.header().shape[HasTwoRows(edges) ? 1 : 0];
}

std::unique_ptr<EdgeSource> NewNpyEdgeSource(NpyReader& edges,
                                             int64_t num_nodes) {
  return std::make_unique<NpyEdgeSource>(edges, num_nodes);
}

int64_t ScratchEdgeBytes(int64_t num_nodes) {
  return FitsInt32(num_nodes) ? 2 * sizeof(int32_t) : 2 * sizeof(int64_t);
}

void AppendScratchEdge(int64_t num_nodes, int64_t source, int64_t destination,
                       std::vector<std::byte>& out) {
  if (FitsInt32(num_nodes)) {
    AppendPair<int32_t>(source, destination, out);
  } else {
    AppendPair<int64_t>(source, destination, out);
  }
}

std::unique_ptr<EdgeSource> NewScratchEdgeSource(io::ReadableFile& file,
                                                 int64_t num_nodes,
                                                 const ScratchExtent& extent) {
  return std::make_unique<ScratchEdgeSource>(file, num_nodes, extent);
}

}  // namespace hearth::store
