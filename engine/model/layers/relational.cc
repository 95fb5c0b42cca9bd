#include "engine/model/layers/relational.h"

#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/operators/graph_functions.h"

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
  // Sums in place only if all rows have the same width, and no gradient as
  // large as the whole matrix is needed. Products that come first need only the
  // relation's rows, so counting all rows as sources would favor sums even
  // more.
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

namespace {

// A live relation of the layer.
struct LiveRelation {
  size_t number;
  RelationPlace place;
  std::unique_ptr<RelationConvolution> convolution;
};

class HeteroConvolution final : public Convolution {
 public:
  HeteroConvolution(const RelationSchema& schema, const LayerPlace& place,
                    const NewRelationConvolution& new_convolution)
      : schema_(schema), out_(place.out) {
    for (const size_t number : schema_.LiveRelations(place.layer)) {
      const RelationPlace ends =
          PlaceOf(schema_, schema_.relations[number], place);
      live_.push_back({number, ends, new_convolution(ends)});
    }
  }

  at::Tensor Forward(
      const SourceRows& sources, const sample::Block& block,
      const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor x = sources.Matrix();
    const std::vector<RelationBlock> blocks =
        SplitByRelation(block, schema_.relations.size());
    RelationInputs inputs(x);
    const std::vector<RelationConvolution::Sets> sets = AddSets(blocks, inputs);
    at::Tensor sum =
        AddBiases(at::zeros({block.num_destinations, out_}, x.options()),
                  RowsByType(nodes.types, block.num_destinations,
                             schema_.node_types.size()));
    for (size_t i = 0; i < live_.size(); ++i) {
      const RelationBlock& relation = blocks[live_[i].number];
      sum =
          AddRows(sum, live_[i].convolution->Forward(relation, sets[i], inputs),
                  relation.destinations);
    }
    return Activate(sum, activation);
  }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> all;
    for (const LiveRelation& live : live_) {
      const std::string prefix =
          absl::StrCat("convs.", schema_.Key(live.number), ".");
      for (const NamedTensor& named : live.convolution->parameters()) {
        all.push_back({prefix + named.name, named.tensor});
      }
    }
    return all;
  }

 private:
  std::vector<RelationConvolution::Sets> AddSets(
      const std::vector<RelationBlock>& blocks, RelationInputs& inputs) const {
    std::vector<RelationConvolution::Sets> sets;
    for (const LiveRelation& live : live_) {
      const RelationBlock& relation = blocks[live.number];
      RelationConvolution::Sets& own = sets.emplace_back();
      own.sources = inputs.Add(
          {.rows = relation.sources, .columns = live.place.source_columns});
      if (!live.convolution->reads_destinations()) continue;
      own.destinations =
          inputs.Add({.rows = relation.destinations,
                      .columns = live.place.destination_columns});
    }
    return sets;
  }

  // Adds, to the rows of each type, the biases of all relations that lead to
  // it.
  at::Tensor AddBiases(at::Tensor sum, const std::vector<RowsPtr>& rows) const {
    std::vector<at::Tensor> biases(rows.size());
    for (const LiveRelation& live : live_) {
      at::Tensor& bias = biases[schema_.relations[live.number].destination];
      const at::Tensor& own = live.convolution->bias();
      bias = bias.defined() ? bias.add(own) : own;
    }
    for (size_t type = 0; type < rows.size(); ++type) {
      if (!biases[type].defined()) continue;
      sum = AddBiasToRows(sum, biases[type], rows[type]);
    }
    return sum;
  }

  const RelationSchema schema_;
  const int64_t out_;
  std::vector<LiveRelation> live_;
};

}  // namespace

RelationPlace PlaceOf(const RelationSchema& schema, const Relation& relation,
                      const LayerPlace& place) {
  const auto columns = [&](size_t type) {
    return place.first ? schema.node_types[type].feature_dim : place.in;
  };
  return {.source_columns = columns(relation.source),
          .destination_columns = columns(relation.destination),
          .out = place.out};
}

std::unique_ptr<Convolution> NewHeteroConvolution(
    const RelationSchema& schema, const LayerPlace& place,
    const NewRelationConvolution& new_convolution) {
  return std::make_unique<HeteroConvolution>(schema, place, new_convolution);
}

}  // namespace hearth::model
