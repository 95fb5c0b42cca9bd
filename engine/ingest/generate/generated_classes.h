#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_

#include <cstdint>
#include <variant>

#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generator_key.h"
#include "engine/ingest/generate/node_permutation.h"

namespace hearth::ingest {

/// The nodes' ranks, communities and classes. The edges of a generated graph
/// are drawn among ranks 0 .. num_nodes - 1, of which the first have the most;
/// ids are ranks permuted. The community of a node is its rank modulo their
/// number: so its members can be counted and numbered, and it has nodes of all
/// degrees. Classes are the communities, or else they take turns among the
/// members of each, from a class on that differs from community to community.
/// Immutable, thread-safe.
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

  /// The label of a node.
  int64_t ClassOf(int64_t node) const { return ClassOfRank(RankOfNode(node)); }

  int64_t CommunityOfRank(int64_t rank) const {
    return rank % num_communities_;
  }
  int64_t ClassOfRank(int64_t rank) const {
    if (!apart_) return CommunityOfRank(rank);
    return (CommunityOfRank(rank) + MemberOfRank(rank)) % num_classes_;
  }

  /// How many nodes are in a community.
  int64_t SizeOf(int64_t community) const {
    return (num_nodes() - community + num_communities_ - 1) / num_communities_;
  }

  /// The rank of the community's member number `index`, 0 .. SizeOf(community)
  /// - 1, and the reverse.
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
