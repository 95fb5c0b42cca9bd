#include "engine/model/rgat.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/model/attention_heads.h"
#include "engine/model/graph_functions.h"
#include "engine/model/hetero_convolution.h"
#include "engine/model/hetero_kind.h"
#include "engine/model/relation_memory.h"

namespace hearth::model {
namespace {

// The attention of one relation. Ends of equal width share a matrix. That of
// destinations is needed for their scores alone: folded with the attention
// vectors, it has as many rows as there are heads.
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
    return {.saved =
                MatrixBytes(both - std::min(both, rows.larger_ends), place.in) +
                MatrixBytes(rows.sources, place.out) + scores + 2 * attention +
                num_relations * blocks,
            .forward = scores + attention,
            .backward = MatrixBytes(rows.most_sources, place.out) + scores +
                        2 * attention + 2 * blocks};
  }

 private:
  const train::RgatOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewRgat(const train::RgatOptions& options,
                                   const train::ModelShape& shape) {
  return std::make_unique<RgatKind>(options, shape);
}

}  // namespace hearth::model
