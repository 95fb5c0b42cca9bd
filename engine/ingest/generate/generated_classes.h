#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_

#include <array>
#include <cstdint>
#include <variant>

#include "engine/base/random.h"
#include "engine/ingest/generate/generate_options.h"

/// Classes, communities and ranks of the nodes of generated graphs, and the
/// random numbers that everything generated is made of.

namespace hearth::ingest {

/// Purposes of random numbers in a generated graph, independent of each other.
/// Their values are part of the meaning of a seed: never renumber them.
enum class GeneratorPart : uint64_t {
  kNodeIds = 1,
  kEdges = 2,
  kCentroids = 3,
  kNoise = 4,
  kSplit = 5,
};

/// 128 random bits.
using RandomBlock = std::array<uint32_t, 4>;

/// Key of the random numbers of one purpose: block (i, j) is a pure function of
/// seed, part, i and j.
class GeneratorKey {
 public:
  GeneratorKey(uint64_t seed, GeneratorPart part) {
    RandomStream stream(seed, RandomPurpose::kGenerator,
                        static_cast<uint64_t>(part));
    key_ = {stream(), stream()};
  }

  RandomBlock Block(uint64_t i, uint32_t j) const {
    return Philox(
        {j, static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0}, key_);
  }

 private:
  std::array<uint32_t, 2> key_;
};

/// A seeded permutation of 0 .. size - 1 that takes no memory: rounds of
/// multiplication and xorshift permute 0 .. 2^bits - 1, and results beyond the
/// range are permuted again until they are in it (cycle walking; less than two
/// steps on average). Immutable, thread-safe.
class NodePermutation {
 public:
  /// REQUIRES: 0 < size <= 2^62.
  NodePermutation(const GeneratorKey& key, int64_t size);

  int64_t size() const { return static_cast<int64_t>(size_); }

  /// Place of `value`. REQUIRES: 0 <= value < size().
  int64_t Apply(int64_t value) const {
    auto x = static_cast<uint64_t>(value);
    do {
      for (const Round& round : rounds_) {
        x = (x * round.factor + round.offset) & mask_;
        x ^= x >> shift_;
      }
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

  /// Inverse of Apply.
  int64_t Invert(int64_t value) const {
    auto x = static_cast<uint64_t>(value);
    do {
      for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
        // The shift is at least half of the bits, so that the step is its own
        // inverse.
        x ^= x >> shift_;
        x = ((x - round->offset) * round->inverse) & mask_;
      }
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

 private:
  struct Round {
    /// An odd factor, and its inverse modulo 2^64.
    uint64_t factor = 1;
    uint64_t inverse = 1;
    uint64_t offset = 0;
  };

  uint64_t size_;
  uint64_t mask_;
  int shift_;
  std::array<Round, 4> rounds_;
};

/// Ranks, communities and classes of the nodes. Edges are drawn among ranks 0
/// .. num_nodes - 1; the lower the rank, the more edges. Ids are ranks,
/// permuted. The community of a node is its rank modulo the number of
/// communities: so the members of a community can be counted and numbered, and
/// have all degrees. Classes are the communities; or, if communities are apart
/// from classes, the members of a community take classes in turn, starting with
/// a class that differs from community to community. Immutable, thread-safe.
class GeneratedClasses {
 public:
  explicit GeneratedClasses(const GenerateOptions& options)
      : ids_(GeneratorKey(options.seed, GeneratorPart::kNodeIds),
             options.num_nodes),
        num_classes_(options.num_classes),
        num_communities_(options.num_classes) {
    const auto* graph = std::get_if<CommunityGraph>(&options.graph);
    if (graph == nullptr || graph->num_communities == 0) return;
    num_communities_ = graph->num_communities;
    apart_ = true;
  }

  int64_t num_nodes() const { return ids_.size(); }
  int64_t num_classes() const { return num_classes_; }
  int64_t num_communities() const { return num_communities_; }
  /// Whether communities have nodes of all classes.
  bool communities_apart() const { return apart_; }

  int64_t NodeOfRank(int64_t rank) const { return ids_.Apply(rank); }
  int64_t RankOfNode(int64_t node) const { return ids_.Invert(node); }

  /// Label of a node.
  int64_t ClassOf(int64_t node) const { return ClassOfRank(RankOfNode(node)); }

  int64_t CommunityOfRank(int64_t rank) const {
    return rank % num_communities_;
  }
  int64_t ClassOfRank(int64_t rank) const {
    if (!apart_) return CommunityOfRank(rank);
    return (CommunityOfRank(rank) + MemberOfRank(rank)) % num_classes_;
  }

  /// Number of nodes in a community.
  int64_t SizeOf(int64_t community) const {
    return (num_nodes() - community + num_communities_ - 1) / num_communities_;
  }

  /// Rank of member number `index`, 0 .. SizeOf(community) - 1, of a community;
  /// and the inverse.
  int64_t RankOfMember(int64_t community, int64_t index) const {
    return index * num_communities_ + community;
  }
  int64_t MemberOfRank(int64_t rank) const { return rank / num_communities_; }

 private:
  NodePermutation ids_;
  int64_t num_classes_;
  int64_t num_communities_;
  bool apart_ = false;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_
