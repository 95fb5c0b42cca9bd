#include "engine/ingest/source/edge_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

bool IsInRange(int64_t node, int64_t num_nodes) {
  return static_cast<uint64_t>(node) < static_cast<uint64_t>(num_nodes);
}

/// Has no branch per node, so that the compiler vectorizes it: for a node in
/// range, neither its number nor its distance to the last node has the sign
/// bit.
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

/// Whether all sources lie before all destinations in the file.
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

namespace {

class EdgesWithReverse final : public EdgeSource {
 public:
  explicit EdgesWithReverse(std::unique_ptr<EdgeSource> edges)
      : edges_(std::move(edges)) {}

  int64_t num_edges() const override { return 2 * edges_->num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    // A block may begin with the reverse of the edge that ended the block
    // before. That edge is in last_, so that `edges_` is read once, in order.
    const int64_t begin = first / 2;
    const int64_t end = (first + count + 1) / 2;
    const bool has_first = first % 2 == 1 && begin == last_index_;
    const int64_t from = has_first ? begin + 1 : begin;
    if (from < end) {
      HEARTH_RETURN_IF_ERROR(edges_->Read(from, end - from, some_));
    } else {
      some_.sources.clear();
      some_.destinations.clear();
    }
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t edge = (first + i) / 2;
      auto [source, destination] = last_;
      if (edge >= from) {
        source = some_.sources[static_cast<size_t>(edge - from)];
        destination = some_.destinations[static_cast<size_t>(edge - from)];
      }
      if ((first + i) % 2 == 1) std::swap(source, destination);
      block.sources[static_cast<size_t>(i)] = source;
      block.destinations[static_cast<size_t>(i)] = destination;
    }
    if (!some_.sources.empty()) {
      last_ = {some_.sources.back(), some_.destinations.back()};
      last_index_ = end - 1;
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<EdgeSource> edges_;
  EdgeBlock some_;
  /// Last edge that was read, and its index in `edges_`.
  std::pair<int64_t, int64_t> last_;
  int64_t last_index_ = -1;
};

class ReversedEdges final : public EdgeSource {
 public:
  explicit ReversedEdges(std::unique_ptr<EdgeSource> edges)
      : edges_(std::move(edges)) {}

  int64_t num_edges() const override { return edges_->num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    HEARTH_RETURN_IF_ERROR(edges_->Read(first, count, block));
    std::swap(block.sources, block.destinations);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<EdgeSource> edges_;
};

}  // namespace

std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<EdgesWithReverse>(std::move(edges));
}

std::unique_ptr<EdgeSource> NewReversedEdges(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<ReversedEdges>(std::move(edges));
}

namespace {

class CscEdges final : public EdgeSource {
 public:
  CscEdges(ArrayReader& indptr, ArrayReader& indices, const EdgeEnds& ends)
      : indptr_(indptr),
        indices_(indices),
        ends_(ends),
        num_edges_(indices.header().shape[0]) {}

  /// OK if indptr spans the edges. Checks all of indptr if there are no edges
  /// to read.
  absl::Status CheckSpan() {
    HEARTH_RETURN_IF_ERROR(Restart());
    int64_t last = 0;
    HEARTH_RETURN_IF_ERROR(
        indptr_.ReadInts(ends_.num_destinations, absl::MakeSpan(&last, 1)));
    if (last != num_edges_) {
      return indptr_.ErrorAt(
          ends_.num_destinations,
          absl::StrCat("is ", last, ", but ", indices_.path(), " has ",
                       num_edges_, " elements"));
    }
    return num_edges_ == 0 ? CheckRest() : absl::OkStatus();
  }

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    if (first == 0) HEARTH_RETURN_IF_ERROR(Restart());
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(
        indices_.ReadInts(first, absl::MakeSpan(block.sources)));
    for (int64_t i = 0; i < count; ++i) {
      while (end_ <= first + i) HEARTH_RETURN_IF_ERROR(NextNode());
      const int64_t source = block.sources[static_cast<size_t>(i)];
      if (source < 0 || source >= ends_.num_sources) {
        return indices_.ErrorAt(
            first + i, absl::StrCat("is ", source, "; node ids are 0 .. ",
                                    ends_.num_sources - 1));
      }
      block.destinations[static_cast<size_t>(i)] = node_;
    }
    return first + count == num_edges_ ? CheckRest() : absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlockOffsets = 64 << 10;

  absl::Status Restart() {
    node_ = -1;
    end_ = 0;
    next_ = 0;
    offsets_first_ = 0;
    offsets_.clear();
    // Offset 0 comes before the edges of the first node.
    HEARTH_RETURN_IF_ERROR(NextNode());
    if (end_ == 0) {
      node_ = -1;
      return absl::OkStatus();
    }
    return indptr_.ErrorAt(0, absl::StrCat("is ", end_, ", not 0"));
  }

  /// Checks that the nodes after the last edge have no edges.
  absl::Status CheckRest() {
    while (next_ <= ends_.num_destinations) {
      HEARTH_RETURN_IF_ERROR(NextNode());
    }
    return absl::OkStatus();
  }

  /// Goes to the next node; sets end_ to the end of its edges.
  absl::Status NextNode() {
    if (next_ > ends_.num_destinations) {
      return indptr_.Error(absl::StrCat("ends with ", end_, ", but ",
                                        indices_.path(), " has ", num_edges_,
                                        " elements"));
    }
    const auto at = static_cast<size_t>(next_ - offsets_first_);
    if (at >= offsets_.size()) {
      offsets_first_ = next_;
      offsets_.resize(static_cast<size_t>(
          std::min(kBlockOffsets, ends_.num_destinations + 1 - next_)));
      HEARTH_RETURN_IF_ERROR(indptr_.ReadInts(next_, absl::MakeSpan(offsets_)));
    }
    const int64_t offset =
        offsets_[static_cast<size_t>(next_ - offsets_first_)];
    if (offset < end_ || offset > num_edges_) {
      return indptr_.ErrorAt(
          next_, absl::StrCat("is ", offset, ", ",
                              offset < end_ ? "less than " : "more than ",
                              offset < end_ ? end_ : num_edges_,
                              offset < end_ ? " before it" : " edges"));
    }
    end_ = offset;
    ++next_;
    ++node_;
    return absl::OkStatus();
  }

  ArrayReader& indptr_;
  ArrayReader& indices_;
  const EdgeEnds ends_;
  const int64_t num_edges_;
  /// Node whose edges are being read, and the end of its edges.
  int64_t node_ = -1;
  int64_t end_ = 0;
  /// Index of the next offset in indptr; the buffered offsets begin at
  /// offsets_first_.
  int64_t next_ = 0;
  int64_t offsets_first_ = 0;
  std::vector<int64_t> offsets_;
};

/// A CscEdges that owns its arrays.
class OwnedCscEdges final : public EdgeSource {
 public:
  OwnedCscEdges(std::unique_ptr<ArrayReader> indptr,
                std::unique_ptr<ArrayReader> indices, const EdgeEnds& ends)
      : indptr_(std::move(indptr)),
        indices_(std::move(indices)),
        edges_(*indptr_, *indices_, ends) {}

  absl::Status CheckSpan() { return edges_.CheckSpan(); }

  int64_t num_edges() const override { return edges_.num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    return edges_.Read(first, count, block);
  }

 private:
  const std::unique_ptr<ArrayReader> indptr_;
  const std::unique_ptr<ArrayReader> indices_;
  CscEdges edges_;
};

}  // namespace

std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices) {
  return std::make_unique<CscEdges>(
      indptr, indices,
      EdgeEnds{.num_sources = std::numeric_limits<int64_t>::max(),
               .num_destinations = indptr.header().shape[0] - 1});
}

absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends) {
  auto edges = std::make_unique<OwnedCscEdges>(std::move(indptr),
                                               std::move(indices), ends);
  HEARTH_RETURN_IF_ERROR(edges->CheckSpan());
  return edges;
}

}  // namespace hearth::ingest
