#include "engine/model/rgcn.h"

#include <ATen/ops/unbind.h>

#include <numeric>
#include <utility>
#include <vector>

#include "engine/model/graph_functions.h"
#include "engine/model/relation_blocks.h"
#include "engine/model/relation_inputs.h"
#include "engine/model/relation_memory.h"
#include "engine/model/relation_schema.h"
#include "engine/model/row_functions.h"

namespace hearth::model {
namespace {

class RgcnConvolution final : public Convolution {
 public:
  RgcnConvolution(const LayerPlace& place, int64_t relations, int64_t bases,
                  Initializer initializer)
      : relations_(relations),
        weight_(initializer.Glorot(
            {bases > 0 ? bases : relations, place.in, place.out})),
        root_(initializer.Glorot({place.in, place.out})),
        bias_(initializer.Zeros(place.out)) {
    if (bases > 0) combination_ = initializer.Glorot({relations, bases});
  }

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const std::vector<RelationBlock> blocks =
        SplitByRelation(block, static_cast<size_t>(relations_));
    RelationInputs inputs(x);
    for (const RelationBlock& relation : blocks) {
      inputs.Add({.rows = relation.sources, .columns = x.size(1)});
    }
    const RowsPtr all = RowsByType({}, block.num_destinations, 1).front();
    const size_t own = inputs.Add({.rows = all, .columns = x.size(1)});
    at::Tensor sum = Linear(FirstRows(x, block, own, inputs), root_.t(), bias_);
    const std::vector<at::Tensor> weights = at::unbind(Weights(), 0);
    for (size_t i = 0; i < blocks.size(); ++i) {
      sum = AddRows(sum, inputs.TakeMean(i, blocks[i], weights[i].t()),
                    blocks[i].destinations);
    }
    return Activate(sum, activation);
  }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> all = {
        {"weight", weight_}, {"root", root_}, {"bias", bias_}};
    if (combination_.defined()) all.push_back({"comp", combination_});
    return all;
  }

 private:
  // Those of destinations: a view needs a gradient of its own as large as x.
  static at::Tensor FirstRows(const at::Tensor& x, const sample::Block& block,
                              size_t set, RelationInputs& inputs) {
    return x.requires_grad() ? inputs.Take(set)
                             : x.narrow(0, 0, block.num_destinations);
  }

  // [relations, in, out].
  at::Tensor Weights() const {
    if (!combination_.defined()) return weight_;
    const int64_t in = weight_.size(1);
    const int64_t out = weight_.size(2);
    const at::Tensor bases = weight_.view({weight_.size(0), in * out});
    return Linear(combination_, bases.t()).view({relations_, in, out});
  }

  const int64_t relations_;
  at::Tensor weight_;
  at::Tensor root_;
  at::Tensor bias_;
  // Undefined without bases.
  at::Tensor combination_;
};

class RgcnKind final : public ModelKind {
 public:
  RgcnKind(const train::RgcnOptions& options, const train::ModelShape& shape)
      : options_(options),
        feature_dim_(shape.feature_dim),
        schema_(SchemaOf(shape)) {}

  std::string name() const override { return "rgcn"; }
  int64_t hidden() const override { return options_.hidden; }
  int64_t bases() const override { return options_.bases; }

  bool projects_inputs() const override {
    return !schema_.HasEqualWidths(feature_dim_);
  }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<RgcnConvolution>(place, num_relations(),
                                             options_.bases, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    const auto relations = static_cast<uint64_t>(num_relations());
    const auto in = static_cast<uint64_t>(place.in);
    const auto bases = static_cast<uint64_t>(options_.bases);
    // The root and the bias; bases or the relations' own; what combines bases.
    const uint64_t matrices = 1 + (bases > 0 ? bases : relations);
    const Bytes of_relations = MatrixBytes(Bytes{relations} * in, place.out);
    const LayerMemory own = {
        .parameters = MatrixBytes(Bytes{matrices} * in + 1, place.out) +
                      MatrixBytes(relations, options_.bases),
        // The relations' matrices that bases make up, and those matrices'
        // gradients: each, and as one array.
        .saved = MatrixBytes(block.destinations, place.in) +
                 (bases > 0 ? 3 : 1) * of_relations,
        .backward = MatrixBytes(block.destinations, place.in) + of_relations};
    std::vector<size_t> all(schema_.relations.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return own + RelationTensors(place, CountRows(schema_, all, block), block,
                                 MatrixBytes(in, place.out));
  }

  LayerMemory EndsMemory(uint64_t num_inputs,
                         uint64_t /*num_seeds*/) const override {
    LayerMemory memory;
    if (!projects_inputs()) return memory;
    for (const train::NodeTypeShape& type : schema_.node_types) {
      memory.parameters +=
          LinearMemory(type.feature_dim, options_.hidden, 0).parameters;
    }
    const LayerMemory all =
        LinearMemory(feature_dim_, options_.hidden, num_inputs);
    memory.saved = all.saved;
    memory.forward = all.forward;
    memory.backward = all.backward;
    return memory;
  }

 private:
  int64_t num_relations() const {
    return static_cast<int64_t>(schema_.relations.size());
  }

  const train::RgcnOptions options_;
  const int64_t feature_dim_;
  const RelationSchema schema_;
};

}  // namespace

std::unique_ptr<ModelKind> NewRgcn(const train::RgcnOptions& options,
                                   const train::ModelShape& shape) {
  return std::make_unique<RgcnKind>(options, shape);
}

}  // namespace hearth::model
