#include "engine/ingest/import/edge_buckets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

// Larger pieces are written no faster, but leave the processor's caches.
constexpr uint64_t kMaxPieceBytes = 1 << 20;
constexpr int kFactorBits = 63;

}  // namespace

EdgeBuckets::EdgeBuckets(io::FileSystem& files, std::string scratch_path,
                         const EdgeEnds& ends, int64_t num_edges,
                         int64_t num_buckets, uint64_t memory_bytes)
    : files_(files),
      scratch_path_(std::move(scratch_path)),
      edge_bytes_(ScratchEdgeBytes(ends)),
      all_bytes_(static_cast<uint64_t>(num_edges * edge_bytes_)),
      fits_memory_(all_bytes_ <= memory_bytes),
      buckets_(static_cast<size_t>(num_buckets)),
      rooms_(static_cast<size_t>(num_buckets)) {
  const int64_t num_nodes = ends.num_destinations;
  const auto one = static_cast<unsigned __int128>(1) << kFactorBits;
  factor_ = static_cast<uint64_t>(one * buckets_.size() /
                                  static_cast<uint64_t>(num_nodes));
  piece_bytes_ = std::min(memory_bytes / buckets_.size(), kMaxPieceBytes);
  piece_bytes_ -= piece_bytes_ % static_cast<uint64_t>(edge_bytes_);
  // Each begins with the first node whose product reaches its number.
  const auto first_node = [&](size_t number) {
    const auto node = (one * number + (factor_ - 1)) / factor_;
    return node < static_cast<uint64_t>(num_nodes) ? static_cast<int64_t>(node)
                                                   : num_nodes;
  };
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].first_node = first_node(i);
    const int64_t end = i + 1 < buckets_.size() ? first_node(i + 1) : num_nodes;
    buckets_[i].num_nodes = end - buckets_[i].first_node;
  }
}

absl::Status EdgeBuckets::Add(const EdgeBlock& block) {
  return edge_bytes_ == sizeof(PackedEdge<int32_t>) ? AddAs<int32_t>(block)
                                                    : AddAs<int64_t>(block);
}

template <typename End>
absl::Status EdgeBuckets::AddAs(const EdgeBlock& block) {
  // Local, since the compiler must take the bytes below for any of them.
  const uint64_t factor = factor_;
  const absl::Span<Room> rooms = absl::MakeSpan(rooms_);
  const absl::Span<const int64_t> sources = block.sources;
  const absl::Span<const int64_t> destinations = block.destinations;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto number = static_cast<size_t>(
        static_cast<unsigned __int128>(destinations[i]) * factor >>
        kFactorBits);
    Room& room = rooms[number];
    if (room.begin == room.end) HEARTH_RETURN_IF_ERROR(MakeRoom(number));
    const PackedEdge<End> edge = {static_cast<End>(sources[i]),
                                  static_cast<End>(destinations[i])};
    std::memcpy(room.begin, &edge, sizeof(edge));
    room.begin += sizeof(edge);
  }
  return absl::OkStatus();
}

absl::Status EdgeBuckets::MakeRoom(size_t number) {
  Bucket& bucket = buckets_[number];
  if (bucket.kept.empty() || fits_memory_) {
    bucket.kept.push_back(
        std::make_unique_for_overwrite<std::byte[]>(piece_bytes_));
  } else {
    HEARTH_RETURN_IF_ERROR(Spill(bucket));
  }
  std::byte* const begin = bucket.kept.back().get();
  rooms_[number] = {begin, begin + piece_bytes_};
  // Edges are counted by blocks; Finish takes off what is free of the last.
  bucket.num_edges += static_cast<int64_t>(piece_bytes_) / edge_bytes_;
  return absl::OkStatus();
}

absl::Status EdgeBuckets::Spill(Bucket& bucket) {
  if (output_ == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(output_, files_.Create(scratch_path_));
    HEARTH_RETURN_IF_ERROR(output_->Allocate(all_bytes_));
  }
  const absl::Span<const std::byte> piece(bucket.kept.back().get(),
                                          piece_bytes_);
  HEARTH_RETURN_IF_ERROR(output_->Append(piece));
  bucket.spilled.push_back({static_cast<int64_t>(scratch_bytes_) / edge_bytes_,
                            static_cast<int64_t>(piece_bytes_) / edge_bytes_,
                            Crc32c(piece)});
  scratch_bytes_ += piece_bytes_;
  return absl::OkStatus();
}

absl::Status EdgeBuckets::Finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].num_edges -= (rooms_[i].end - rooms_[i].begin) / edge_bytes_;
  }
  if (output_ == nullptr) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(output_->Close());
  HEARTH_ASSIGN_OR_RETURN(input_, files_.OpenForRead(scratch_path_));
  return absl::OkStatus();
}

uint64_t EdgeBuckets::SpilledBytes(const Bucket& bucket) const {
  return bucket.spilled.size() * piece_bytes_;
}

absl::Status EdgeBuckets::ReadSpilled(const ScratchExtent& extent,
                                      absl::Span<std::byte> out) const {
  HEARTH_RETURN_IF_ERROR(input_->Read(
      static_cast<uint64_t>(extent.first_edge * edge_bytes_), out));
  if (Crc32c(out) == extent.crc32c) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(scratch_path_, ": edges ", extent.first_edge, " .. ",
                   extent.first_edge + extent.num_edges - 1,
                   " are damaged (their checksum does not match)"));
}

void EdgeBuckets::Reader::Begin(const Bucket& bucket, bool hold) {
  bucket_ = &bucket;
  hold_ = hold;
  is_held_ = false;
  const uint64_t bytes =
      hold ? buckets_.SpilledBytes(bucket) : buckets_.piece_bytes_;
  memory_.resize(std::max<uint64_t>(memory_.size(), bytes));
}

absl::Status EdgeBuckets::Reader::ForEachPiece(
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> visit) {
  const uint64_t piece_bytes = buckets_.piece_bytes_;
  for (size_t i = 0; i < bucket_->spilled.size(); ++i) {
    const absl::Span<std::byte> piece = absl::MakeSpan(memory_).subspan(
        hold_ ? i * piece_bytes : 0, piece_bytes);
    if (!is_held_) {
      HEARTH_RETURN_IF_ERROR(buckets_.ReadSpilled(bucket_->spilled[i], piece));
    }
    HEARTH_RETURN_IF_ERROR(visit(piece));
  }
  is_held_ = hold_;
  auto left = static_cast<uint64_t>(bucket_->num_edges * buckets_.edge_bytes_) -
              buckets_.SpilledBytes(*bucket_);
  for (const std::unique_ptr<std::byte[]>& block : bucket_->kept) {
    const uint64_t bytes = std::min(left, piece_bytes);
    HEARTH_RETURN_IF_ERROR(visit({block.get(), bytes}));
    left -= bytes;
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
