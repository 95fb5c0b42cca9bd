#include "engine/plan/partition/fennel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "engine/base/status.h"

namespace hearth::plan {

namespace {

double Alpha(const FennelInput& input) {
  const auto nodes = static_cast<double>(std::max<int64_t>(input.nodes, 1));
  return static_cast<double>(input.parts) * static_cast<double>(input.edges) /
         (nodes * nodes);
}

}  // namespace

int64_t PartCapacity(int64_t count, int parts) {
  const int64_t tenths = 10 * int64_t{parts};
  return count / tenths * 11 + (count % tenths * 11 + tenths - 1) / tenths;
}

Fennel::Fennel(const FennelInput& input)
    : alpha_(Alpha(input)),
      node_capacity_(PartCapacity(input.nodes, input.parts)),
      training_capacity_(PartCapacity(input.training_nodes, input.parts)),
      sizes_(static_cast<size_t>(input.parts)),
      penalties_(input.parts),
      training_penalties_(input.parts) {
  for (int part = 0; part < input.parts; ++part) Update(part);
}

int Fennel::Place(const PartCounts& neighbors, bool is_training) {
  const bool training_fits =
      training_penalties_[training_penalties_.lowest()] != MinTree::kClosed;
  const MinTree& penalties =
      is_training && training_fits ? training_penalties_ : penalties_;
  // The best part without neighbors is the one with the lowest penalty.
  int best = penalties.lowest();
  double best_score = static_cast<double>(neighbors[best]) - penalties[best];
  neighbors.ForEach([&](int part, int64_t count) {
    const double score = static_cast<double>(count) - penalties[part];
    if (score > best_score || (score == best_score && part < best)) {
      best = part;
      best_score = score;
    }
  });
  ++sizes_[best].nodes;
  sizes_[best].training_nodes += is_training ? 1 : 0;
  Update(best);
  return best;
}

void Fennel::Remove(int part, bool is_training) {
  --sizes_[part].nodes;
  sizes_[part].training_nodes -= is_training ? 1 : 0;
  Update(part);
}

void Fennel::Update(int part) {
  const Size& size = sizes_[part];
  const double penalty =
      size.nodes >= node_capacity_
          ? MinTree::kClosed
          : 2 * alpha_ * static_cast<double>(size.nodes) +
                std::sqrt(static_cast<double>(size.training_nodes));
  penalties_.Set(part, penalty);
  training_penalties_.Set(part, size.training_nodes >= training_capacity_
                                    ? MinTree::kClosed
                                    : penalty);
}

namespace {

// The bits of a filter of n nodes, m = n ln(1/f) / ln^2 2; with them, the best
// number of hashes is m / n ln 2 = 3.3.
int64_t Rows(int64_t nodes, int parts) {
  const auto most = static_cast<double>(PartCapacity(nodes, parts));
  const double bits = most * std::log(1 / BloomFilters::kFalsePositives) /
                      (std::numbers::ln2 * std::numbers::ln2);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(bits)));
}

// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t BloomFilters::Bytes(int64_t nodes, int parts) {
  const uint64_t bits =
      static_cast<uint64_t>(Rows(nodes, parts)) * static_cast<uint64_t>(parts);
  // A probe reads a word more than it needs.
  return (bits / 64 + 2 + kMaxWords) * sizeof(uint64_t);
}

absl::StatusOr<BloomFilters> BloomFilters::Make(int64_t nodes, int parts) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(Bytes(nodes, parts)));
  return BloomFilters(Rows(nodes, parts), parts, std::move(memory));
}

std::array<uint64_t, BloomFilters::kHashes> BloomFilters::Places(
    store::NodeId node) const {
  constexpr uint64_t kSteps = 0x9e3779b97f4a7c15;
  std::array<uint64_t, kHashes> places;
  uint64_t seed = static_cast<uint64_t>(node) * kHashes;
  for (uint64_t& place : places) {
    const auto row = static_cast<uint64_t>(
        static_cast<unsigned __int128>(Mix(++seed * kSteps)) *
            static_cast<uint64_t>(rows_) >>
        64);
    place = row * static_cast<uint64_t>(parts_);
  }
  return places;
}

void BloomFilters::Insert(store::NodeId node, int part) {
  for (const uint64_t place : Places(node)) {
    const uint64_t bit = place + static_cast<uint64_t>(part);
    words()[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

void BloomFilters::Count(store::NodeId node, PartCounts& counts) const {
  const std::array<uint64_t, kHashes> places = Places(node);
  for (int first = 0; first < parts_; first += 64) {
    uint64_t met = ~uint64_t{0};
    for (const uint64_t place : places) {
      const uint64_t bit = place + static_cast<uint64_t>(first);
      const uint64_t* const at = words() + bit / 64;
      const uint64_t low = at[0] >> (bit % 64);
      // In two steps, as a shift by 64 is none.
      met &= low | at[1] << 1 << (63 - bit % 64);
    }
    if (parts_ - first < 64) met &= (uint64_t{1} << (parts_ - first)) - 1;
    for (; met != 0; met &= met - 1) {
      counts.Add(first + std::countr_zero(met));
    }
  }
}

}  // namespace hearth::plan
