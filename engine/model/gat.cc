#include "engine/model/gat.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "engine/model/attention_heads.h"
#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

class GatConvolution final : public Convolution {
 public:
  GatConvolution(const LayerPlace& place, const AttentionHeads& heads,
                 Initializer initializer)
      : heads_(heads),
        weight_(initializer.Glorot({heads.width(), place.in})),
        source_attention_(
            initializer.Glorot({1, heads.heads(), heads.channels()})),
        destination_attention_(
            initializer.Glorot({1, heads.heads(), heads.channels()})),
        bias_(initializer.Zeros(place.out)) {}

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor transformed = Linear(x, weight_);
    const at::Tensor sums =
        SumByAttention(transformed, ScoreWeight(),
                       NewEdges(SelfLoopAdjacency(block), x.device()));
    return Activate(AddBias(heads_.Join(sums), bias_), activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin.weight", weight_},
            {"att_src", source_attention_},
            {"att_dst", destination_attention_},
            {"bias", bias_}};
  }

 private:
  // [2 * heads, heads * channels]: one product gives every row's scores as
  // source and as destination.
  at::Tensor ScoreWeight() const {
    const std::vector<at::Tensor> blocks = {HeadBlocks(source_attention_),
                                            HeadBlocks(destination_attention_)};
    return at::cat(blocks, 0);
  }

  AttentionHeads heads_;
  at::Tensor weight_;
  at::Tensor source_attention_;
  at::Tensor destination_attention_;
  at::Tensor bias_;
};

class GatKind final : public ModelKind {
 public:
  explicit GatKind(const train::GatOptions& options) : options_(options) {}

  std::string name() const override { return "gat"; }
  int64_t hidden() const override { return options_.hidden; }
  int64_t heads() const override { return options_.heads; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<GatConvolution>(
        place, AttentionHeads(place, options_.heads), initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    const AttentionHeads heads(place, options_.heads);
    const Bytes output = MatrixBytes(block.destinations, place.out);
    const Bytes sums = MatrixBytes(block.destinations, heads.width());
    const Bytes transformed = MatrixBytes(block.sources, heads.width());
    const Bytes scores = 2 * MatrixBytes(block.sources, heads.heads());
    const Bytes attention = EdgeScoreBytes(heads.heads(), block);
    const Bytes weight = MatrixBytes(place.in, heads.width());
    const Bytes head_blocks = HeadBlockBytes(heads, 2);
    // Either all gradients of attention, or, once what was saved for them is
    // gone, those of the layer's input and weight.
    return {.parameters = weight + MatrixBytes(2, heads.width()) +
                          MatrixBytes(1, place.out),
            .edges = EdgesBytes(block),
            .saved = transformed + scores + attention + output + head_blocks,
            .forward = std::max(sums + output, ProductBytes(weight)) +
                       ProductBytes(head_blocks),
            .backward = std::max(
                output + sums + scores + attention + transformed +
                    GradientBytes(head_blocks, block.sources),
                (place.first ? 0 : MatrixBytes(block.sources, place.in)) +
                    GradientBytes(weight, block.sources))};
  }

 private:
  const train::GatOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewGat(const train::GatOptions& options) {
  return std::make_unique<GatKind>(options);
}

}  // namespace hearth::model
