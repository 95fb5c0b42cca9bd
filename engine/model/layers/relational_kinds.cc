#include "engine/model/layers/relational_kinds.h"

#include <ATen/ops/unbind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/model/cpu/relations.h"
#include "engine/model/layers/homogeneous_kinds.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/relational.h"
#include "engine/model/layers/step_memory.h"
#include "engine/model/operators/graph_functions.h"
#include "engine/train/model_options.h"

namespace hearth::model {

namespace {

// Positions, weights and the transposed adjacency, twice: of the relation and
// of the block.
constexpr uint64_t kEdgeBytes = 48;
// Positions and lists of edges.
constexpr uint64_t kNodeBytes = 48;

uint64_t Most(const std::vector<uint64_t>& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

// Upper bound of the rows in any block of this size, for a layer with these
// `relations` (indices in the schema): the block's own counts, if known;
// otherwise a node is an end in at most as many relations as its type has, and
// all nodes together in at most as many as there are edges.
RelationRowCounts CountRows(const RelationSchema& schema,
                            const std::vector<size_t>& relations,
                            const BlockSize& block) {
  std::vector<uint64_t> as_source(schema.node_types.size());
  std::vector<uint64_t> as_destination(schema.node_types.size());
  for (const size_t number : relations) {
    ++as_source[schema.relations[number].source];
    ++as_destination[schema.relations[number].destination];
  }
  const RelationRowCounts known = block.relations.value_or(
      RelationRowCounts{.sources = block.edges,
                        .destinations = block.edges,
                        .larger_ends = block.edges,
                        .most_sources = block.edges,
                        .most_destinations = block.edges});
  return {.sources = std::min(known.sources, block.sources * Most(as_source)),
          .destinations = std::min(known.destinations,
                                   block.destinations * Most(as_destination)),
          .larger_ends = std::min(
              known.larger_ends, block.sources * Most(as_source) +
                                     block.destinations * Most(as_destination)),
          .most_sources = std::min(known.most_sources, block.sources),
          .most_destinations =
              std::min(known.most_destinations, block.destinations)};
}

// The tensors of one layer with S sources and D destinations. All relations
// together have E' rows, counting the larger end of each; the largest has s
// sources and d destinations. Rows have I columns on input, O on output.
//
// Saved for the backward pass:
//   E' x I   rows as gathered, or sums of the inputs: one of both per relation
//   D x O    output
// Added in the forward pass, for one relation at a time:
//   s x O, d x O, and d x I if it sums first
// Added in the backward pass:
//   D x O    gradient of the output
//   and the larger of two groups, which are never held together:
//     s x O, d x O, d x I if it sums first, and s x I (the gradient of gathered
//     rows, unless this is the first layer), for one relation at a time;
//     D x O (the gradient before the activation, or rows of one type, whose sum
//     is the gradient of a bias) and S x I (the gradient of the input, unless
//     this is the first layer).
//
// Memory of these tensors for a layer whose relations have `rows` and matrices
// of at most `matrix` bytes each; relations sum before they multiply only if
// they `may_sum_first`. Without parameters.
LayerMemory RelationTensors(const LayerPlace& place,
                            const RelationRowCounts& rows,
                            const BlockSize& block, Bytes matrix,
                            bool may_sum_first) {
  const Bytes output = MatrixBytes(block.destinations, place.out);
  const Bytes sums =
      may_sum_first ? MatrixBytes(rows.most_destinations, place.in) : 0;
  const Bytes of_relation =
      MatrixBytes(rows.most_sources + rows.most_destinations, place.out);
  LayerMemory memory = {
      .edges = kEdgeBytes * Bytes{block.edges} +
               kNodeBytes *
                   (Bytes{block.sources} + rows.sources + rows.destinations),
      .saved = MatrixBytes(rows.larger_ends, place.in) + output,
      .forward = sums + of_relation + ProductBytes(matrix)};
  Bytes relation = sums + of_relation +
                   GradientBytes(matrix, std::max(rows.most_sources,
                                                  rows.most_destinations));
  Bytes others = output;
  if (!place.first) {
    relation += MatrixBytes(rows.most_sources, place.in);
    others += MatrixBytes(block.sources, place.in);
  }
  memory.backward = output + std::max(relation, others);
  return memory;
}

// Memory of a linear layer for `rows` rows, with a copy of its input, which
// `needs_gradient` or is the batch's.
LayerMemory LinearMemory(int64_t in, int64_t out, uint64_t rows,
                         bool needs_gradient) {
  const Bytes parameters = LinearBytes(in, out);
  const Bytes output = MatrixBytes(rows, out);
  const Bytes input_gradient = needs_gradient ? MatrixBytes(rows, in) : 0;
  return {.parameters = parameters,
          .saved = MatrixBytes(rows, in) + output,
          .forward = output + ProductBytes(parameters),
          .backward =
              2 * output + input_gradient + GradientBytes(parameters, rows)};
}

// Base of rsage and rgat, the RGNN of MLPerf and IGBH: layers of PyG's
// HeteroConv, LeakyReLU and dropout after each of them, and a linear layer.
class HeteroKind : public ModelKind {
 public:
  /// REQUIRES: `shape` is valid.
  explicit HeteroKind(const train::ModelShape& shape);

  Activation activation() const override { return Activation::kLeakyRelu; }
  bool has_output_layer() const override { return true; }
  bool drops_types() const override { return true; }

  std::unique_ptr<Convolution> NewLayer(const LayerPlace& place,
                                        Initializer initializer) const override;

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override;

  LayerMemory EndsMemory(uint64_t num_inputs,
                         uint64_t num_seeds) const override;

 protected:
  /// Makes the convolution of a relation.
  virtual std::unique_ptr<RelationConvolution> NewRelation(
      const RelationPlace& place, Initializer& initializer) const = 0;

  /// Bytes of the convolution's parameters, exactly.
  virtual Bytes RelationParameterBytes(const RelationPlace& place) const = 0;

  /// Whether relations may sum rows before they multiply them.
  virtual bool may_sum_first() const = 0;

  /// Memory that a layer of so many relations takes beside RelationTensors.
  virtual LayerMemory MoreMemory(const LayerPlace& /*place*/,
                                 const RelationRowCounts& /*rows*/,
                                 const BlockSize& /*block*/,
                                 size_t /*num_relations*/) const {
    return {};
  }

 private:
  const RelationSchema schema_;
  const int64_t label_width_;
};

HeteroKind::HeteroKind(const train::ModelShape& shape)
    : schema_(SchemaOf(shape)), label_width_(shape.label_width) {}

std::unique_ptr<Convolution> HeteroKind::NewLayer(
    const LayerPlace& place, Initializer initializer) const {
  return NewHeteroConvolution(schema_, place, [&](const RelationPlace& ends) {
    return NewRelation(ends, initializer);
  });
}

LayerMemory HeteroKind::Memory(const LayerPlace& place,
                               const BlockSize& block) const {
  LayerMemory parameters;
  Bytes largest = 0;
  const std::vector<size_t> live = schema_.LiveRelations(place.layer);
  for (const size_t number : live) {
    const Bytes bytes = RelationParameterBytes(
        PlaceOf(schema_, schema_.relations[number], place));
    parameters.parameters += bytes;
    largest = std::max(largest, bytes);
  }
  const RelationRowCounts rows = CountRows(schema_, live, block);
  return parameters +
         RelationTensors(place, rows, block, largest, may_sum_first()) +
         MoreMemory(place, rows, block, live.size());
}

LayerMemory HeteroKind::EndsMemory(uint64_t /*num_inputs*/,
                                   uint64_t num_seeds) const {
  return LinearMemory(hidden(), label_width_, num_seeds,
                      /*needs_gradient=*/true);
}

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
      const SourceRows& sources, const sample::Block& block,
      const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor x = sources.Matrix();
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
  // Rows of destinations. A copy: a view would need a gradient as large as x.
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
  // Undefined if there are no bases.
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
        // The relations' matrices that bases make up.
        .saved = MatrixBytes(block.destinations, place.in) +
                 (bases > 0 ? 1 : 0) * of_relations,
        // The gradients of the relations' matrices: each, and as one array,
        // which without bases is the parameter's.
        .backward = MatrixBytes(block.destinations, place.in) +
                    (bases > 0 ? 2 : 1) * of_relations};
    std::vector<size_t> all(schema_.relations.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return own + RelationTensors(place, CountRows(schema_, all, block), block,
                                 MatrixBytes(in, place.out),
                                 /*may_sum_first=*/true);
  }

  LayerMemory EndsMemory(uint64_t num_inputs,
                         uint64_t /*num_seeds*/) const override {
    LayerMemory memory;
    if (!projects_inputs()) return memory;
    for (const train::NodeTypeShape& type : schema_.node_types) {
      memory.parameters += LinearBytes(type.feature_dim, options_.hidden);
    }
    const LayerMemory all =
        LinearMemory(feature_dim_, options_.hidden, num_inputs,
                     /*needs_gradient=*/false);
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

class MeanConvolution final : public RelationConvolution {
 public:
  MeanConvolution(const RelationPlace& place, Initializer& initializer)
      : weight_(initializer.Linear({place.out, place.source_columns},
                                   place.source_columns)),
        bias_(initializer.Linear({place.out}, place.source_columns)) {}

  at::Tensor Forward(const RelationBlock& relation, const Sets& sets,
                     RelationInputs& inputs) const override {
    return inputs.TakeMean(sets.sources, relation, weight_);
  }

  const at::Tensor& bias() const override { return bias_; }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin_l.weight", weight_}, {"lin_l.bias", bias_}};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class RsageKind final : public HeteroKind {
 public:
  RsageKind(const train::RsageOptions& options, const train::ModelShape& shape)
      : HeteroKind(shape), options_(options) {}

  std::string name() const override { return "rsage"; }
  int64_t hidden() const override { return options_.hidden; }

 protected:
  std::unique_ptr<RelationConvolution> NewRelation(
      const RelationPlace& place, Initializer& initializer) const override {
    return std::make_unique<MeanConvolution>(place, initializer);
  }

  Bytes RelationParameterBytes(const RelationPlace& place) const override {
    return LinearBytes(place.source_columns, place.out);
  }

  bool may_sum_first() const override { return true; }

 private:
  const train::RsageOptions options_;
};

// Attention of one relation. Ends of equal width share a matrix. The matrix of
// destinations is needed only for scores: folded with the attention vectors, it
// has as many rows as there are heads.
class AttentionConvolution final : public RelationConvolution {
 public:
  AttentionConvolution(const RelationPlace& place, int64_t heads,
                       Initializer& initializer)
      : shared_(place.source_columns == place.destination_columns),
        source_weight_(initializer.Glorot({place.out, place.source_columns})),
        destination_weight_(
            shared_
                ? source_weight_
                : initializer.Glorot({place.out, place.destination_columns})),
        source_attention_(initializer.Glorot({1, heads, place.out / heads})),
        destination_attention_(
            initializer.Glorot({1, heads, place.out / heads})),
        bias_(initializer.Zeros(place.out)) {}

  bool reads_destinations() const override { return true; }

  at::Tensor Forward(const RelationBlock& relation, const Sets& sets,
                     RelationInputs& inputs) const override {
    const at::Tensor sources =
        Linear(inputs.Take(sets.sources), source_weight_);
    const at::Tensor folded =
        Linear(HeadBlocks(destination_attention_), destination_weight_.t());
    return SumByAttention(sources,
                          Linear(sources, HeadBlocks(source_attention_)),
                          Linear(inputs.Take(sets.destinations), folded),
                          NewEdges(relation.edges, sources.device()));
  }

  const at::Tensor& bias() const override { return bias_; }

  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> all;
    if (shared_) {
      all.push_back({"lin.weight", source_weight_});
    } else {
      all.push_back({"lin_src.weight", source_weight_});
      all.push_back({"lin_dst.weight", destination_weight_});
    }
    all.push_back({"att_src", source_attention_});
    all.push_back({"att_dst", destination_attention_});
    all.push_back({"bias", bias_});
    return all;
  }

 private:
  const bool shared_;
  at::Tensor source_weight_;
  at::Tensor destination_weight_;
  at::Tensor source_attention_;
  at::Tensor destination_attention_;
  at::Tensor bias_;
};

class RgatKind final : public HeteroKind {
 public:
  RgatKind(const train::RgatOptions& options, const train::ModelShape& shape)
      : HeteroKind(shape), options_(options) {}

  std::string name() const override { return "rgat"; }
  int64_t hidden() const override { return options_.hidden; }
  int64_t heads() const override { return options_.heads; }

 protected:
  std::unique_ptr<RelationConvolution> NewRelation(
      const RelationPlace& place, Initializer& initializer) const override {
    return std::make_unique<AttentionConvolution>(place, options_.heads,
                                                  initializer);
  }

  Bytes RelationParameterBytes(const RelationPlace& place) const override {
    // Matrices, vectors of attention for both ends, and the bias.
    const bool shared = place.source_columns == place.destination_columns;
    return MatrixBytes(
        static_cast<uint64_t>(place.source_columns) +
            (shared ? 0 : static_cast<uint64_t>(place.destination_columns)) + 3,
        place.out);
  }

  // Attention weighs products.
  bool may_sum_first() const override { return false; }

  LayerMemory MoreMemory(const LayerPlace& place, const RelationRowCounts& rows,
                         const BlockSize& block,
                         size_t num_relations) const override {
    // Rows of both ends are gathered and stay, and so do products of all
    // sources, scores of both ends and the attention along edges. One relation
    // at a time has gradients: of its products by their sums and by their
    // scores, and of the others.
    const uint64_t both = rows.sources + rows.destinations;
    const Bytes scores = MatrixBytes(both, options_.heads);
    const Bytes attention = MatrixBytes(block.edges, options_.heads);
    // Attention vectors in blocks, the ones that those are multiplied by, and
    // the folded product.
    const auto heads = static_cast<uint64_t>(options_.heads);
    const Bytes blocks = 2 * MatrixBytes(heads, place.out + options_.heads) +
                         MatrixBytes(heads, place.in);
    // Gathered rows of destinations have gradients, too, where inputs have.
    const Bytes input_gradients =
        place.first ? 0 : MatrixBytes(rows.most_destinations, place.in);
    return {.saved =
                MatrixBytes(both - std::min(both, rows.larger_ends), place.in) +
                MatrixBytes(rows.sources, place.out) + scores + 2 * attention +
                num_relations * blocks,
            .forward = scores + attention,
            .backward = MatrixBytes(rows.most_sources, place.out) + scores +
                        2 * attention + 2 * blocks + input_gradients};
  }

 private:
  const train::RgatOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewRgcn(const train::RgcnOptions& options,
                                   const train::ModelShape& shape) {
  return std::make_unique<RgcnKind>(options, shape);
}

std::unique_ptr<ModelKind> NewRsage(const train::RsageOptions& options,
                                    const train::ModelShape& shape) {
  return std::make_unique<RsageKind>(options, shape);
}

std::unique_ptr<ModelKind> NewRgat(const train::RgatOptions& options,
                                   const train::ModelShape& shape) {
  return std::make_unique<RgatKind>(options, shape);
}

}  // namespace hearth::model
