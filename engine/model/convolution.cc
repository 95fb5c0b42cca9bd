#include "engine/model/convolution.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <variant>

#include "engine/base/random.h"
#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

// Makes the parameters of one layer, each from its own stream.
class Initializer {
 public:
  Initializer(uint64_t model_seed, uint64_t layer)
      : model_seed_(model_seed), layer_(layer) {}

  // torch.nn.Linear's for weights and biases alike: Kaiming-uniform with a =
  // sqrt(5) comes to a bound of 1 / sqrt(fan_in).
  at::Tensor Linear(at::IntArrayRef shape, int64_t fan_in) {
    return Uniform(shape, 1 / std::sqrt(static_cast<double>(fan_in)));
  }

  // Glorot and Bengio (2010), over the last two dimensions as PyG has it.
  at::Tensor Glorot(at::IntArrayRef shape) {
    const auto sum =
        static_cast<double>(shape[shape.size() - 2] + shape.back());
    return Uniform(shape, std::sqrt(6 / sum));
  }

  at::Tensor Zeros(int64_t size) {
    ++parameter_;
    return at::zeros({size}, at::kFloat).requires_grad_();
  }

 private:
  at::Tensor Uniform(at::IntArrayRef shape, double bound) {
    RandomStream stream(model_seed_, RandomPurpose::kInitialWeights, layer_,
                        parameter_++);
    at::Tensor result = at::empty(shape, at::kFloat);
    auto* data = result.mutable_data_ptr<float>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      data[i] =
          static_cast<float>((2 * double{stream.UniformFloat()} - 1) * bound);
    }
    return result.requires_grad_();
  }

  uint64_t model_seed_;
  uint64_t layer_;
  uint64_t parameter_ = 0;
};

struct Width {
  int64_t in;
  int64_t out;
};

// PyG's SAGEConv.
class SageConvolution final : public Convolution {
 public:
  SageConvolution(Width width, Initializer initializer)
      : neighbor_weight_(initializer.Linear({width.out, width.in}, width.in)),
        bias_(initializer.Linear({width.out}, width.in)),
        root_weight_(initializer.Linear({width.out, width.in}, width.in)) {}

  at::Tensor Forward(const at::Tensor& x, const sample::Block& block,
                     absl::Span<const int64_t> in_degrees) const override {
    return PropagateLinear(x, neighbor_weight_, bias_, root_weight_,
                           std::make_shared<Edges>(MeanAdjacency(block)));
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

// PyG's GCNConv.
class GcnConvolution final : public Convolution {
 public:
  GcnConvolution(Width width, Initializer initializer)
      : weight_(initializer.Glorot({width.out, width.in})),
        bias_(initializer.Zeros(width.out)) {}

  at::Tensor Forward(const at::Tensor& x, const sample::Block& block,
                     absl::Span<const int64_t> in_degrees) const override {
    return PropagateLinear(
        x, weight_, bias_, std::nullopt,
        std::make_shared<Edges>(SymmetricAdjacency(block, in_degrees)));
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin.weight", weight_}, {"bias", bias_}};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

// What becomes of the heads' outputs.
enum class Heads { kConcatenated, kAveraged };

// PyG's GATConv. `width.out` is that of one head.
class GatConvolution final : public Convolution {
 public:
  GatConvolution(Width width, int64_t heads, Heads joined,
                 Initializer initializer)
      : heads_(heads),
        channels_(width.out),
        joined_(joined),
        weight_(initializer.Glorot({heads * width.out, width.in})),
        source_attention_(initializer.Glorot({1, heads, width.out})),
        destination_attention_(initializer.Glorot({1, heads, width.out})),
        bias_(initializer.Zeros(
            joined == Heads::kAveraged ? width.out : heads * width.out)) {}

  at::Tensor Forward(const at::Tensor& x, const sample::Block& block,
                     absl::Span<const int64_t> in_degrees) const override {
    const at::Tensor transformed = Linear(x, weight_);
    const at::Tensor scores = Linear(transformed, ScoreWeight());
    at::Tensor sum = SumByAttention(
        transformed, scores, std::make_shared<Edges>(SelfLoopAdjacency(block)));
    if (joined_ == Heads::kAveraged) {
      sum = sum.view({-1, heads_, channels_}).mean(1);
    }
    return AddBias(sum, bias_);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin.weight", weight_},
            {"att_src", source_attention_},
            {"att_dst", destination_attention_},
            {"bias", bias_}};
  }

 private:
  // [2 * heads, heads * channels]: the attention vectors in blocks, so that one
  // product gives every row's scores as source and as destination.
  at::Tensor ScoreWeight() const {
    const at::Tensor diagonal = at::eye(heads_, at::kFloat).unsqueeze(2);
    const auto in_blocks = [&](const at::Tensor& attention) {
      return attention.mul(diagonal).view({heads_, heads_ * channels_});
    };
    const std::vector<at::Tensor> blocks = {in_blocks(source_attention_),
                                            in_blocks(destination_attention_)};
    return at::cat(blocks, 0);
  }

  int64_t heads_;
  int64_t channels_;
  Heads joined_;
  at::Tensor weight_;
  at::Tensor source_attention_;
  at::Tensor destination_attention_;
  at::Tensor bias_;
};

// Makes the layer that stands `last` or not, with `in` input columns.
struct MakeConvolution {
  using Result = std::unique_ptr<Convolution>;

  Result operator()(const train::SageOptions& sage) const {
    return std::make_unique<SageConvolution>(
        Width{in, last ? label_width : sage.hidden}, initializer);
  }
  Result operator()(const train::GcnOptions& gcn) const {
    return std::make_unique<GcnConvolution>(
        Width{in, last ? label_width : gcn.hidden}, initializer);
  }
  Result operator()(const train::GatOptions& gat) const {
    return std::make_unique<GatConvolution>(
        Width{in, last ? label_width : gat.hidden / gat.heads}, gat.heads,
        last ? Heads::kAveraged : Heads::kConcatenated, initializer);
  }
  Result operator()(const train::NoModelOptions&) const { return nullptr; }

  int64_t in;
  bool last;
  int64_t label_width;
  Initializer initializer;
};

struct HiddenWidth {
  template <typename Options>
  int64_t operator()(const Options& options) const {
    return options.hidden;
  }
  int64_t operator()(const train::NoModelOptions&) const { return 0; }
};

}  // namespace

std::vector<std::unique_ptr<Convolution>> NewConvolutions(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  std::vector<std::unique_ptr<Convolution>> layers;
  int64_t in = shape.feature_dim;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    layers.push_back(std::visit(
        MakeConvolution{in, layer == shape.num_layers - 1, shape.label_width,
                        Initializer(options.model_seed, layer)},
        options.model));
    in = std::visit(HiddenWidth{}, options.model);
  }
  return layers;
}

}  // namespace hearth::model
