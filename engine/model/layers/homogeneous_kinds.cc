#include "engine/model/layers/homogeneous_kinds.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "engine/model/operators/graph_functions.h"

namespace hearth::model {

namespace {

class SageConvolution final : public Convolution {
 public:
  SageConvolution(const LayerPlace& place, Initializer initializer)
      : neighbor_weight_(initializer.Linear({place.out, place.in}, place.in)),
        bias_(initializer.Linear({place.out}, place.in)),
        root_weight_(initializer.Linear({place.out, place.in}, place.in)) {}

  at::Tensor Forward(
      const SourceRows& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    return PropagateLinear(x, neighbor_weight_, bias_, root_weight_,
                           NewEdges(MeanAdjacency(block), x.device()),
                           activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin_l.weight", neighbor_weight_},
            {"lin_l.bias", bias_},
            {"lin_r.weight", root_weight_}};
  }

 private:
  at::Tensor neighbor_weight_;
  at::Tensor bias_;
  at::Tensor root_weight_;
};

class SageKind final : public ModelKind {
 public:
  explicit SageKind(const train::SageOptions& options) : options_(options) {}

  std::string name() const override { return "sage"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<SageConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    return PropagationMemory(
        place, block,
        MatrixBytes(2 * static_cast<uint64_t>(place.in) + 1, place.out));
  }

  std::optional<Bytes> BytesInPlace(const LayerPlace& place,
                                    const BlockSize& block) const override {
    return PropagationInPlace(place, block, /*own_rows=*/true);
  }

 private:
  const train::SageOptions options_;
};

class GcnConvolution final : public Convolution {
 public:
  GcnConvolution(const LayerPlace& place, Initializer initializer)
      : weight_(initializer.Glorot({place.out, place.in})),
        bias_(initializer.Zeros(place.out)) {}

  at::Tensor Forward(
      const SourceRows& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    return PropagateLinear(
        x, weight_, bias_, /*root_weight=*/std::nullopt,
        NewEdges(SymmetricAdjacency(block, nodes.degrees), x.device()),
        activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin.weight", weight_}, {"bias", bias_}};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class GcnKind final : public ModelKind {
 public:
  explicit GcnKind(const train::GcnOptions& options) : options_(options) {}

  std::string name() const override { return "gcn"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<GcnConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    return PropagationMemory(place, block, LinearBytes(place.in, place.out));
  }

  std::optional<Bytes> BytesInPlace(const LayerPlace& place,
                                    const BlockSize& block) const override {
    return PropagationInPlace(place, block, /*own_rows=*/false);
  }

 private:
  const train::GcnOptions options_;
};

class GinConvolution final : public Convolution {
 public:
  GinConvolution(const LayerPlace& place, Initializer initializer)
      : inner_weight_(initializer.Linear({place.out, place.in}, place.in)),
        inner_bias_(initializer.Linear({place.out}, place.in)),
        outer_weight_(initializer.Linear({place.out, place.out}, place.out)),
        outer_bias_(initializer.Linear({place.out}, place.out)) {}

  at::Tensor Forward(
      const SourceRows& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor inner = PropagateLinear(
        x, inner_weight_, inner_bias_, /*root_weight=*/std::nullopt,
        NewEdges(SumAdjacency(block), x.device()), ReluActivation());
    return Linear(inner, outer_weight_, outer_bias_, activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"nn.lins.0.weight", inner_weight_},
            {"nn.lins.0.bias", inner_bias_},
            {"nn.lins.1.weight", outer_weight_},
            {"nn.lins.1.bias", outer_bias_}};
  }

  std::vector<NamedTensor> constants() const override {
    return {{"eps", at::zeros({1}, at::kFloat)}};
  }

 private:
  at::Tensor inner_weight_;
  at::Tensor inner_bias_;
  at::Tensor outer_weight_;
  at::Tensor outer_bias_;
};

class GinKind final : public ModelKind {
 public:
  explicit GinKind(const train::GinOptions& options) : options_(options) {}

  std::string name() const override { return "gin"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<GinConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    const Bytes rows = MatrixBytes(block.destinations, place.out);
    const Bytes outer = LinearBytes(place.out, place.out);
    LayerMemory memory =
        PropagationMemory(place, block, LinearBytes(place.in, place.out));
    memory.parameters += outer;
    // Output of the second product.
    memory.saved += rows;
    // Gradients by the output, by the output before its activation, and by the
    // input, the last of which is the first product's.
    memory.forward = std::max(memory.forward, ProductBytes(outer));
    memory.backward = std::max(
        memory.backward, 3 * rows + GradientBytes(outer, block.destinations));
    return memory;
  }

  std::optional<Bytes> BytesInPlace(const LayerPlace& place,
                                    const BlockSize& block) const override {
    return PropagationInPlace(place, block, /*own_rows=*/false);
  }

 private:
  const train::GinOptions options_;
};

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
      const SourceRows& sources, const sample::Block& block,
      const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor x = sources.Matrix();
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
  // [2 * heads, heads * channels]: one product gives each row's scores as
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
    // Either all gradients of attention or, after these and what was saved for
    // them are freed, the gradients by the layer's input and weight.
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
      const SourceRows& sources, const sample::Block& block,
      const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor x = sources.Matrix();
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
    // The gradient by the input comes in two parts, by sources and by
    // destinations, which are then added.
    const Bytes input_gradient =
        place.first ? 0
                    : 3 * MatrixBytes(block.sources, place.in) +
                          MatrixBytes(block.destinations, place.in);
    // Either all gradients of attention (by the destinations' rows and by
    // `att`, each as large as the rows) or, after what was saved for them is
    // freed, the gradients by the layer's input and weights.
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

std::unique_ptr<ModelKind> NewSage(const train::SageOptions& options) {
  return std::make_unique<SageKind>(options);
}

std::unique_ptr<ModelKind> NewGcn(const train::GcnOptions& options) {
  return std::make_unique<GcnKind>(options);
}

std::unique_ptr<ModelKind> NewGin(const train::GinOptions& options) {
  return std::make_unique<GinKind>(options);
}

std::unique_ptr<ModelKind> NewGat(const train::GatOptions& options) {
  return std::make_unique<GatKind>(options);
}

std::unique_ptr<ModelKind> NewGatv2(const train::Gatv2Options& options) {
  return std::make_unique<Gatv2Kind>(options);
}

}  // namespace hearth::model
