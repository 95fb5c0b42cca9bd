#include "engine/ingest/source/edge_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

bool IsInRange(int64_t node, int64_t num_nodes) {
  return static_cast<uint64_t>(node) < static_cast<uint64_t>(num_nodes);
}

/// Without a branch for each: a node's number and its distance to the last have
/// no sign bit.
bool AreInRange(absl::Span<const int64_t> nodes, int64_t num_nodes) {
  const auto last = static_cast<uint64_t>(num_nodes - 1);
  uint64_t signs = 0;
  for (const int64_t node : nodes) {
    const auto number = static_cast<uint64_t>(node);
    signs |= number | (last - number);
  }
  return signs >> 63 == 0;
}

bool HasTwoRows(const ArrayReader& edges, EdgeShape shape) {
  if (shape != EdgeShape::kEither) return shape == EdgeShape::kRows;
  return edges.header().shape[0] == 2;
}

int64_t NumEdges(const ArrayReader& edges, EdgeShape shape) {
  return edges.header().shape[HasTwoRows(edges, shape) ? 1 : 0];
}

/// One row of all sources, then one of all destinations, in the file's order.
bool IsPlanar(const ArrayReader& edges, EdgeShape shape) {
  return HasTwoRows(edges, shape) != edges.header().fortran_order;
}

class ArrayEdgeSource final : public EdgeSource {
 public:
  ArrayEdgeSource(std::unique_ptr<ArrayReader> reader, const EdgeEnds& ends,
                  EdgeShape shape)
      : reader_(std::move(reader)),
        ends_(ends),
        num_edges_(NumEdges(*reader_, shape)),
        planar_(IsPlanar(*reader_, shape)) {}

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(planar_ ? ReadPlanar(first, block)
                                   : ReadInterleaved(first, block));
    if (AreInRange(block.sources, ends_.num_sources) &&
        AreInRange(block.destinations, ends_.num_destinations)) {
      return absl::OkStatus();
    }
    for (size_t i = 0; i < block.size(); ++i) {
      if (IsInRange(block.sources[i], ends_.num_sources) &&
          IsInRange(block.destinations[i], ends_.num_destinations)) {
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
        reader_->ReadInts(first, absl::MakeSpan(block.sources)));
    return reader_->ReadInts(num_edges_ + first,
                             absl::MakeSpan(block.destinations));
  }

  absl::Status ReadInterleaved(int64_t first, EdgeBlock& block) {
    pairs_.resize(2 * block.size());
    HEARTH_RETURN_IF_ERROR(
        reader_->ReadInts(2 * first, absl::MakeSpan(pairs_)));
    for (size_t i = 0; i < block.size(); ++i) {
      block.sources[i] = pairs_[2 * i];
      block.destinations[i] = pairs_[2 * i + 1];
    }
    return absl::OkStatus();
  }

  absl::Status OutOfRange(int64_t edge, int64_t source,
                          int64_t destination) const {
    const bool is_source = !IsInRange(source, ends_.num_sources);
    const int64_t end = is_source ? 0 : 1;
    const int64_t position = planar_ ? end * num_edges_ + edge : 2 * edge + end;
    const int64_t num_nodes =
        is_source ? ends_.num_sources : ends_.num_destinations;
    return reader_->ErrorAt(
        position, absl::StrCat("is ", is_source ? source : destination,
                               "; node ids are 0 .. ", num_nodes - 1));
  }

  const std::unique_ptr<ArrayReader> reader_;
  const EdgeEnds ends_;
  const int64_t num_edges_;
  const bool planar_;
  std::vector<int64_t> pairs_;
};

bool FitsInt32(const EdgeEnds& ends) {
  return ends.num_sources <= INT32_MAX && ends.num_destinations <= INT32_MAX;
}

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
  ScratchEdgeSource(io::ReadableFile& file, const EdgeEnds& ends,
                    const ScratchExtent& extent)
      : file_(file), ends_(ends), extent_(extent) {}

  int64_t num_edges() const override { return extent_.num_edges; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    const int64_t edge_bytes = ScratchEdgeBytes(ends_);
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
    if (FitsInt32(ends_)) {
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
  const EdgeEnds ends_;
  const ScratchExtent extent_;
  std::vector<std::byte> raw_;
  uint32_t pass_crc_ = 0;
};

}  // namespace

absl::Status CheckEdgeHeader(const ArrayReader& edges, EdgeShape shape) {
  const store::ArrayHeader& header = edges.header();
  if (header.type.IsFloat() ||
      header.type.kind == store::ElementType::Kind::kBool) {
    return edges.Error(absl::StrCat("has ", Name(header.type),
                                    " elements; node ids are integers"));
  }
  const std::vector<int64_t>& dims = header.shape;
  const bool rows = dims.size() == 2 && dims[0] == 2;
  const bool pairs = dims.size() == 2 && dims[1] == 2;
  if ((rows && shape != EdgeShape::kPairs) ||
      (pairs && shape != EdgeShape::kRows)) {
    return absl::OkStatus();
  }
  const char* wanted = shape == EdgeShape::kRows    ? "(2, E)"
                       : shape == EdgeShape::kPairs ? "(E, 2)"
                                                    : "(2, E) or (E, 2)";
  return edges.Error(absl::StrCat("has shape ", store::FormatShape(dims), "; ",
                                  wanted, " is needed"));
}

absl::StatusOr<std::unique_ptr<EdgeSource>> NewArrayEdgeSource(
    std::unique_ptr<ArrayReader> edges, const EdgeEnds& ends, EdgeShape shape) {
  HEARTH_RETURN_IF_ERROR(CheckEdgeHeader(*edges, shape));
  return std::make_unique<ArrayEdgeSource>(std::move(edges), ends, shape);
}

int64_t ScratchEdgeBytes(const EdgeEnds& ends) {
  return FitsInt32(ends) ? 2 * sizeof(int32_t) : 2 * sizeof(int64_t);
}

void AppendScratchEdge(const EdgeEnds& ends, int64_t source,
                       int64_t destination, std::vector<std::byte>& out) {
  if (FitsInt32(ends)) {
    AppendPair<int32_t>(source, destination, out);
  } else {
    AppendPair<int64_t>(source, destination, out);
  }
}

std::unique_ptr<EdgeSource> NewScratchEdgeSource(io::ReadableFile& file,
                                                 const EdgeEnds& ends,
                                                 const ScratchExtent& extent) {
  return std::make_unique<ScratchEdgeSource>(file, ends, extent);
}

}  // namespace hearth::ingest
