#include "engine/ingest/generate/generated_edges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <variant>

#include "engine/ingest/generate/generator_key.h"
#include "engine/ingest/generate/rmat_recursion.h"

namespace hearth::ingest {
namespace {

/// The share, of 2^32, of R-MAT's edges whose source takes its class from the
/// destination.
constexpr uint32_t kSameClass = 1u << 31;

/// An edge between ranks.
struct RankPair {
  int64_t source = 0;
  int64_t destination = 0;
};

class RmatEdges {
 public:
  RmatEdges(const RmatGraph& graph, const GenerateOptions& options)
      : recursion_(graph),
        key_(options.seed, GeneratorPart::kEdges),
        num_nodes_(static_cast<uint64_t>(options.num_nodes)),
        num_classes_(options.num_classes),
        num_bits_(static_cast<int>(std::bit_width(num_nodes_ - 1))),
        num_draws_((num_bits_ + kRmatLevels - 1) / kRmatLevels) {}

  RankPair Draw(uint64_t number) const {
    uint64_t row = 0;
    uint64_t column = 0;
    RandomBlock block = key_.Block(number, 0);
    int used = 0;
    for (int i = 0; i < num_draws_; ++i) {
      const uint32_t cell = recursion_.Draw(block[used]);
      row = row << kRmatLevels | cell >> kRmatLevels;
      column = column << kRmatLevels | cell % (1u << kRmatLevels);
      if (++used < 4) continue;
      block = key_.Block(number, 1);
      used = 0;
    }
    RankPair pair{RankOf(row), RankOf(column)};
    if (block[used] < kSameClass) pair.source = SameClass(pair);
    return pair;
  }

 private:
  /// Scales a position in the square to a rank.
  int64_t RankOf(uint64_t position) const {
    position >>= num_draws_ * kRmatLevels - num_bits_;
    const auto scaled = static_cast<unsigned __int128>(position) * num_nodes_;
    return static_cast<int64_t>(scaled >> num_bits_);
  }

  /// A rank near the source's, of the destination's class.
  int64_t SameClass(const RankPair& pair) const {
    const int64_t rank = pair.source - pair.source % num_classes_ +
                         pair.destination % num_classes_;
    // The last group may lack that class.
    return rank < static_cast<int64_t>(num_nodes_) ? rank : rank - num_classes_;
  }

  const RmatRecursion recursion_;
  const GeneratorKey key_;
  const uint64_t num_nodes_;
  const int64_t num_classes_;
  /// Levels of the recursion; those drawn beyond them are dropped.
  const int num_bits_;
  const int num_draws_;
};

class CommunityEdges {
 public:
  CommunityEdges(const CommunityGraph& graph, const GenerateOptions& options,
                 const GeneratedClasses& classes)
      : classes_(classes),
        key_(options.seed, GeneratorPart::kEdges),
        inside_(options.num_classes == 1 ? 1 : graph.inside),
        // Rank r is to have r^-1/(exponent - 1) edges (Chung and Lu, 2002):
        // the share of those up to r is r^((exponent - 2)/(exponent - 1)).
        power_((graph.exponent - 1) / (graph.exponent - 2)) {}

  RankPair Draw(uint64_t number) const {
    const RandomBlock block = key_.Block(number, 0);
    const int64_t destination = DrawRank(
        block[0] | uint64_t{block[1] >> 16} << 32, classes_.num_nodes());
    int64_t community = destination % classes_.num_classes();
    const double coin = block[3] * 0x1p-32;
    if (coin >= inside_) community = Another(community, coin);
    const int64_t member =
        DrawRank(block[2] | uint64_t{block[1] & 0xFFFF} << 32,
                 classes_.SizeOf(community));
    return {classes_.RankOfMember(community, member), destination};
  }

 private:
  /// Below `count`, by the power law. `random` has 48 bits.
  int64_t DrawRank(uint64_t random, int64_t count) const {
    const double uniform = static_cast<double>(random) * 0x1p-48;
    const double rank = std::pow(uniform, power_) * static_cast<double>(count);
    return std::min(static_cast<int64_t>(rank), count - 1);
  }

  /// Any community but that; what is left of the coin is uniform.
  int64_t Another(int64_t community, double coin) const {
    const int64_t others = classes_.num_classes() - 1;
    const double uniform = (coin - inside_) / (1 - inside_);
    const auto step =
        std::min(static_cast<int64_t>(uniform * static_cast<double>(others)),
                 others - 1);
    return (community + 1 + step) % classes_.num_classes();
  }

  const GeneratedClasses classes_;
  const GeneratorKey key_;
  const double inside_;
  const double power_;
};

/// Edges that `Draw` gives by their number.
template <typename Model>
class ModelEdges : public EdgeSource {
 public:
  ModelEdges(Model model, const GenerateOptions& options,
             const GeneratedClasses& classes)
      : model_(std::move(model)),
        classes_(classes),
        num_edges_(options.num_edges),
        undirected_(options.undirected) {}

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < block.size(); ++i) {
      const uint64_t position = static_cast<uint64_t>(first) + i;
      const bool reverse = undirected_ && position % 2 == 1;
      if (reverse && i > 0) {
        block.sources[i] = block.destinations[i - 1];
        block.destinations[i] = block.sources[i - 1];
        continue;
      }
      RankPair pair = model_.Draw(undirected_ ? position / 2 : position);
      if (reverse) std::swap(pair.source, pair.destination);
      block.sources[i] = classes_.NodeOfRank(pair.source);
      block.destinations[i] = classes_.NodeOfRank(pair.destination);
    }
    return absl::OkStatus();
  }

 private:
  const Model model_;
  const GeneratedClasses classes_;
  const int64_t num_edges_;
  const bool undirected_;
};

}  // namespace

std::unique_ptr<EdgeSource> NewGeneratedEdges(const GenerateOptions& options,
                                              const GeneratedClasses& classes) {
  if (const auto* rmat = std::get_if<RmatGraph>(&options.graph)) {
    return std::make_unique<ModelEdges<RmatEdges>>(RmatEdges(*rmat, options),
                                                   options, classes);
  }
  const auto& communities = std::get<CommunityGraph>(options.graph);
  return std::make_unique<ModelEdges<CommunityEdges>>(
      CommunityEdges(communities, options, classes), options, classes);
}

}  // namespace hearth::ingest
