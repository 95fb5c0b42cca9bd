#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_

#include <cstdint>

#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generator_key.h"
#include "engine/ingest/generate/node_permutation.h"

namespace hearth::ingest {

/// The nodes' ranks and classes. The edges of a generated graph are drawn among
/// ranks 0 .. num_nodes - 1, of which the first have the most; ids are ranks
/// permuted. The class of a node is its rank modulo num_classes: so the members
/// of a class can be counted and numbered, and a class has nodes of all
/// degrees. Immutable, thread-safe.
class GeneratedClasses {
 public:
  explicit GeneratedClasses(const GenerateOptions& options)
      : ids_(GeneratorKey(options.seed, GeneratorPart::kNodeIds),
             options.num_nodes),
        num_classes_(options.num_classes) {}

  int64_t num_nodes() const { return ids_.size(); }
  int64_t num_classes() const { return num_classes_; }

  int64_t NodeOfRank(int64_t rank) const { return ids_.Apply(rank); }

  /// The label of a node.
  int64_t ClassOf(int64_t node) const {
    return ids_.Invert(node) % num_classes_;
  }

  /// How many nodes are in a class.
  int64_t SizeOf(int64_t label) const {
    return (num_nodes() - label + num_classes_ - 1) / num_classes_;
  }

  /// The rank of the class's member number `index`, 0 .. SizeOf(label) - 1.
  int64_t RankOfMember(int64_t label, int64_t index) const {
    return index * num_classes_ + label;
  }

 private:
  NodePermutation ids_;
  int64_t num_classes_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_CLASSES_H_
