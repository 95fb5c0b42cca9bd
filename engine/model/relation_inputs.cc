#include "engine/model/relation_inputs.h"

#include <memory>
#include <optional>
#include <utility>

#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

EdgesPtr MeanEdges(Adjacency edges, const at::Tensor& x) {
  edges.weights = MeanWeights(edges.indptr);
  return NewEdges(std::move(edges), x.device());
}

}  // namespace

size_t RelationInputs::Add(RowSet set) {
  sets_.push_back(std::move(set));
  return sets_.size() - 1;
}

at::Tensor RelationInputs::Take(size_t set) {
  if (!x_.requires_grad()) return GatherRows(x_, {sets_[set]}).front();
  if (gathered_.empty()) gathered_ = GatherRows(x_, sets_);
  return std::move(gathered_[set]);
}

at::Tensor RelationInputs::TakeMean(size_t set, const RelationBlock& relation,
                                    const at::Tensor& weight) {
  // Rows of one width lie as the sum wants them, and no gradient as large as
  // the whole matrix is needed. Products that come first need the relation's
  // rows alone. Counting all rows as sources would favor sums even more.
  const bool in_place =
      !x_.requires_grad() && sets_[set].columns == x_.size(1) &&
      SumsFirst({.sources = relation.edges.num_sources,
                 .destinations = relation.edges.num_destinations,
                 .edges = relation.edges.num_edges(),
                 .in = weight.size(1),
                 .out = weight.size(0),
                 .needs_input_gradient = false});
  if (in_place) {
    return PropagateLinear(
        x_, weight, /*bias=*/std::nullopt,
        /*root_weight=*/std::nullopt,
        MeanEdges(WithSourcesOfBlock(relation, x_.size(0)), x_));
  }
  return PropagateLinear(Take(set), weight, /*bias=*/std::nullopt,
                         /*root_weight=*/std::nullopt,
                         MeanEdges(relation.edges, x_));
}

}  // namespace hearth::model
