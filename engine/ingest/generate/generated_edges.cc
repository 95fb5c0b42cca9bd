#include "engine/ingest/generate/generated_edges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "engine/ingest/generate/generated_classes.h"

namespace hearth::ingest {

namespace {

constexpr double kThresholdScale = 1 << 22;

/// Product of the quarters' probabilities on the way to `cell`.
double CellProbability(const RmatGraph& graph, uint32_t cell) {
  const double rest = std::max(0.0, 1 - graph.a - graph.b - graph.c);
  const std::array<double, 4> quarters = {graph.a, graph.b, graph.c, rest};
  const uint32_t row = cell >> kRmatLevels;
  double probability = 1;
  for (int level = 0; level < kRmatLevels; ++level) {
    const uint32_t lower = row >> level & 1;
    const uint32_t right = cell >> level & 1;
    probability *= quarters[lower * 2 + right];
  }
  return probability;
}

}  // namespace

RmatRecursion::RmatRecursion(const RmatGraph& graph) {
  std::array<double, kRmatCells> share;
  std::vector<uint32_t> small;
  std::vector<uint32_t> large;
  for (uint32_t cell = 0; cell < kRmatCells; ++cell) {
    share[cell] = CellProbability(graph, cell) * kRmatCells;
    (share[cell] < 1 ? small : large).push_back(cell);
  }
  // The entry of each small cell is filled up by a large cell.
  while (!small.empty() && !large.empty()) {
    const uint32_t less = small.back();
    small.pop_back();
    const uint32_t more = large.back();
    table_[less] = {
        static_cast<uint32_t>(std::lround(share[less] * kThresholdScale)),
        more};
    share[more] -= 1 - share[less];
    if (share[more] >= 1) continue;
    large.pop_back();
    small.push_back(more);
  }
  // What is left differs from 1 by rounding only.
  for (const std::vector<uint32_t>& rest : {small, large}) {
    for (const uint32_t cell : rest) {
      table_[cell] = {static_cast<uint32_t>(kThresholdScale), cell};
    }
  }
}

double RmatRecursion::ProbabilityOf(uint32_t cell) const {
  double weight = 0;
  for (uint32_t i = 0; i < kRmatCells; ++i) {
    const double own = table_[i].threshold;
    if (i == cell) weight += own;
    if (table_[i].alias == cell) weight += kThresholdScale - own;
  }
  return weight / kThresholdScale / kRmatCells;
}

namespace {

/// Share, of 2^32, of edges whose source takes the destination's class, in
/// models that do not join classes by themselves.
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

  /// A rank of the destination's class, near the source's.
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
  /// Levels of the recursion; levels drawn beyond them are dropped.
  const int num_bits_;
  const int num_draws_;
};

/// Power law of degrees: rank r gets a number of edges proportional to
/// r^-1/(exponent - 1) (Chung and Lu, 2002), so the ranks up to r have a share
/// of r^((exponent - 2)/(exponent - 1)).
class PowerLaw {
 public:
  explicit PowerLaw(double exponent)
      : power_((exponent - 1) / (exponent - 2)) {}

  /// A rank below `count`, drawn with 48 bits of `random`.
  int64_t Draw(uint64_t random, int64_t count) const {
    const double uniform = static_cast<double>(random) * 0x1p-48;
    const double rank = std::pow(uniform, power_) * static_cast<double>(count);
    return std::min(static_cast<int64_t>(rank), count - 1);
  }

 private:
  const double power_;
};

/// Edges of communities that are the classes.
class CommunityEdges {
 public:
  CommunityEdges(const CommunityGraph& graph, const GenerateOptions& options,
                 const GeneratedClasses& classes)
      : classes_(classes),
        key_(options.seed, GeneratorPart::kEdges),
        inside_(options.num_classes == 1 ? 1 : graph.inside),
        law_(graph.exponent) {}

  RankPair Draw(uint64_t number) const {
    const RandomBlock block = key_.Block(number, 0);
    const int64_t destination = law_.Draw(
        block[0] | uint64_t{block[1] >> 16} << 32, classes_.num_nodes());
    int64_t community = classes_.CommunityOfRank(destination);
    const double coin = block[3] * 0x1p-32;
    if (coin >= inside_) community = Another(community, coin);
    const int64_t member =
        law_.Draw(block[2] | uint64_t{block[1] & 0xFFFF} << 32,
                  classes_.SizeOf(community));
    return {classes_.RankOfMember(community, member), destination};
  }

 private:
  /// Any community but `community`; the remainder of the coin is uniform.
  int64_t Another(int64_t community, double coin) const {
    const int64_t others = classes_.num_communities() - 1;
    const double uniform = (coin - inside_) / (1 - inside_);
    const auto step =
        std::min(static_cast<int64_t>(uniform * static_cast<double>(others)),
                 others - 1);
    return (community + 1 + step) % classes_.num_communities();
  }

  const GeneratedClasses classes_;
  const GeneratorKey key_;
  const double inside_;
  const PowerLaw law_;
};

/// Edges of communities that have nodes of all classes.
class ApartCommunityEdges {
 public:
  ApartCommunityEdges(const CommunityGraph& graph,
                      const GenerateOptions& options,
                      const GeneratedClasses& classes)
      : classes_(classes),
        key_(options.seed, GeneratorPart::kEdges),
        inside_(graph.num_communities == 1 ? 1 : graph.inside),
        law_(graph.exponent) {}

  RankPair Draw(uint64_t number) const {
    const RandomBlock ends = key_.Block(number, 0);
    const RandomBlock choice = key_.Block(number, 1);
    const uint64_t source = ends[0] | uint64_t{ends[1] >> 16} << 32;
    const uint64_t destination = ends[2] | uint64_t{ends[1] & 0xFFFF} << 32;
    RankPair pair;
    if (choice[0] * 0x1p-32 < inside_) {
      const int64_t community =
          AnyCommunity(choice[1] | uint64_t{choice[3]} << 32);
      pair = {DrawMember(community, source),
              DrawMember(community, destination)};
    } else {
      pair = {law_.Draw(source, classes_.num_nodes()),
              law_.Draw(destination, classes_.num_nodes())};
      if (classes_.CommunityOfRank(pair.source) ==
          classes_.CommunityOfRank(pair.destination)) {
        // The next rank belongs to another community.
        pair.source += pair.source + 1 < classes_.num_nodes() ? 1 : -1;
      }
    }
    if (choice[2] < kSameClass) pair.source = SameClass(pair);
    return pair;
  }

 private:
  int64_t AnyCommunity(uint64_t random) const {
    const auto count =
        static_cast<unsigned __int128>(classes_.num_communities());
    return static_cast<int64_t>(random * count >> 64);
  }

  int64_t DrawMember(int64_t community, uint64_t random) const {
    return classes_.RankOfMember(community,
                                 law_.Draw(random, classes_.SizeOf(community)));
  }

  /// A rank of the source's community and the destination's class, near the
  /// source's.
  int64_t SameClass(const RankPair& pair) const {
    const int64_t num_classes = classes_.num_classes();
    const int64_t beyond = classes_.ClassOfRank(pair.source) -
                           classes_.ClassOfRank(pair.destination);
    int64_t member = classes_.MemberOfRank(pair.source) -
                     (beyond + num_classes) % num_classes;
    if (member < 0) member += num_classes;
    return classes_.RankOfMember(classes_.CommunityOfRank(pair.source), member);
  }

  const GeneratedClasses classes_;
  const GeneratorKey key_;
  const double inside_;
  const PowerLaw law_;
};

/// Edges that a model draws by their number.
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
  if (classes.communities_apart()) {
    return std::make_unique<ModelEdges<ApartCommunityEdges>>(
        ApartCommunityEdges(communities, options, classes), options, classes);
  }
  return std::make_unique<ModelEdges<CommunityEdges>>(
      CommunityEdges(communities, options, classes), options, classes);
}

}  // namespace hearth::ingest
