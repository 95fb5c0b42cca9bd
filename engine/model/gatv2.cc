#include "engine/model/gatv2.h"

#include <algorithm>

#include "engine/model/attention_heads.h"
#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

class Gatv2Convolution final : public Convolution {
 public:
  Gatv2Convolution(const LayerPlace& place, const AttentionHeads& heads,
                   Initializer initializer)
      : heads_(heads),
        source_weight_(initializer.Glorot({heads.width(), place.in})),
        source_bias_(initializer.Linear({heads.width()}, place.in)),
        destination_weight_(initializer.Glorot({heads.width(), place.in})),
        destination_bias_(initializer.Linear({heads.width()}, place.in)),
        attention_(initializer.Glorot({1, heads.heads(), heads.channels()})),
        bias_(initializer.Zeros(place.out)) {}

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor own = x.narrow(0, 0, block.num_destinations);
    const at::Tensor sums = SumByDynamicAttention(
        Linear(x, source_weight_, source_bias_),
        Linear(own, destination_weight_, destination_bias_), attention_,
        NewEdges(SelfLoopAdjacency(block), x.device()));
    return Activate(AddBias(heads_.Join(sums), bias_), activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin_l.weight", source_weight_},
            {"lin_l.bias", source_bias_},
            {"lin_r.weight", destination_weight_},
            {"lin_r.bias", destination_bias_},
            {"att", attention_},
            {"bias", bias_}};
  }

 private:
  AttentionHeads heads_;
  at::Tensor source_weight_;
  at::Tensor source_bias_;
  at::Tensor destination_weight_;
  at::Tensor destination_bias_;
  at::Tensor attention_;
  at::Tensor bias_;
};

class Gatv2Kind final : public ModelKind {
 public:
  explicit Gatv2Kind(const train::Gatv2Options& options) : options_(options) {}

  std::string name() const override { return "gatv2"; }
  int64_t hidden() const override { return options_.hidden; }
  int64_t heads() const override { return options_.heads; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<Gatv2Convolution>(
        place, AttentionHeads(place, options_.heads), initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    const AttentionHeads heads(place, options_.heads);
    const Bytes output = MatrixBytes(block.destinations, place.out);
    const Bytes rows = MatrixBytes(block.destinations, heads.width());
    const Bytes transformed = MatrixBytes(block.sources, heads.width());
    const Bytes attention = EdgeScoreBytes(heads.heads(), block);
    // The gradient of the input comes in parts, by sources and destinations,
    // before they are added up.
    const Bytes input_gradient =
        place.first ? 0
                    : 3 * MatrixBytes(block.sources, place.in) +
                          MatrixBytes(block.destinations, place.in);
    // Either all gradients of attention (those by the destinations' rows and by
    // `att` are as large as the rows), or, once what was saved for them is
    // gone, those of the layer's input and weights.
    const Bytes weight = LinearBytes(place.in, heads.width());
    return {.parameters = 2 * weight + MatrixBytes(1, heads.width()) +
                          MatrixBytes(1, place.out),
            .edges = EdgesBytes(block),
            .saved = transformed + rows + attention + output,
            .forward = std::max(rows + output, ProductBytes(weight)),
            .backward = std::max(
                output + 3 * rows + attention + transformed,
                input_gradient + GradientBytes(weight, block.sources))};
  }

 private:
  const train::Gatv2Options options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewGatv2(const train::Gatv2Options& options) {
  return std::make_unique<Gatv2Kind>(options);
}

}  // namespace hearth::model
