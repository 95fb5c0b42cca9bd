#include "engine/model/operators/device_operators.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/runtime/device_streams.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::model {

namespace {

// An activation without dropout.
HearthCudaActivation Plain(float slope, float scale) {
  return {
      .slope = slope, .scale = scale, .threshold = 0, .key = {}, .nonce = {}};
}

HearthCudaActivation ActivationOf(
    float slope, const std::optional<DropoutPattern>& dropout) {
  if (!dropout) return Plain(slope, /*scale=*/1);
  return {.slope = slope,
          .scale = dropout->scale(),
          .threshold = dropout->threshold(),
          .key = {dropout->key()[0], dropout->key()[1]},
          .nonce = {dropout->nonce()[0], dropout->nonce()[1]}};
}

at::Tensor Gradient(const HearthCudaActivation& activation,
                    const at::Tensor& output, const at::Tensor& gradient) {
  at::Tensor result = at::empty_like(gradient);
  DeviceKernels::Queue(output.device(), [&](cuda::Stream& stream) {
    return stream.ActivationGradient(
        {.activation = activation,
         .count = result.numel(),
         // The gradient only reads it.
         .output = const_cast<float*>(output.const_data_ptr<float>()),
         .gradient = gradient.const_data_ptr<float>(),
         .result = result.mutable_data_ptr<float>()});
  });
  return result;
}

}  // namespace

void ActivateOnDevice(const at::Tensor& x, float slope,
                      const std::optional<DropoutPattern>& dropout) {
  DeviceKernels::Queue(x.device(), [&](cuda::Stream& stream) {
    return stream.Activate({.activation = ActivationOf(slope, dropout),
                            .count = x.numel(),
                            .output = x.mutable_data_ptr<float>(),
                            .gradient = nullptr,
                            .result = nullptr});
  });
}

at::Tensor GradientOnDevice(const at::Tensor& output,
                            const at::Tensor& gradient, float slope,
                            const std::optional<DropoutPattern>& dropout) {
  return Gradient(ActivationOf(slope, dropout), output, gradient);
}

at::Tensor ReluGradientOnDevice(const at::Tensor& output,
                                const at::Tensor& gradient, float scale) {
  return Gradient(Plain(/*slope=*/0, scale), output, gradient);
}

at::Tensor SumOfProductsOnDevice(
    absl::Span<const Factors> terms, const std::optional<at::Tensor>& bias,
    const std::optional<ReluActivation>& activation) {
  const at::NoGradGuard no_gradients;
  const Factors& first = terms.front();
  at::Tensor sum = bias ? at::addmm(*bias, first.x, first.w.t())
                        : at::mm(first.x, first.w.t());
  for (const Factors& term : terms.subspan(1)) {
    AddProductOnDevice(term.x, term.w, sum);
  }
  if (activation) ActivateOnDevice(sum, /*slope=*/0, activation->dropout);
  return sum;
}

void AddProductOnDevice(const at::Tensor& x, const at::Tensor& w,
                        const at::Tensor& sum) {
  const at::NoGradGuard no_gradients;
  sum.addmm_(x, w.t());
}

at::Tensor ThroughActivationOnDevice(const RowGradient& rows) {
  if (!rows.activated.defined()) return rows.gradient;
  return ReluGradientOnDevice(rows.activated, rows.gradient, rows.scale);
}

ParameterGradients TransposedProductsOnDevice(const RowGradient& g,
                                              absl::Span<const at::Tensor> xs,
                                              bool bias) {
  const at::NoGradGuard no_gradients;
  const at::Tensor gradient = ThroughActivationOnDevice(g);
  ParameterGradients result;
  for (const at::Tensor& x : xs) {
    result.weights.push_back(at::mm(gradient.t(), x));
  }
  if (bias) result.bias = gradient.sum(0);
  return result;
}

namespace {

template <typename T>
at::Tensor CopyOf(const std::vector<T>& values, const at::Device& device) {
  return ToDevice(at::from_blob(const_cast<T*>(values.data()),
                                {static_cast<int64_t>(values.size())},
                                c10::CppTypeToScalarType<T>::value),
                  device);
}

// Edge lists on a device; `edges` is undefined if edges are in their own order.
struct DeviceLists {
  at::Tensor indptr;
  at::Tensor indices;
  at::Tensor edges;

  HearthCudaEdges view() const {
    return {
        .indptr = indptr.const_data_ptr<int64_t>(),
        .indices = indices.const_data_ptr<int32_t>(),
        .edges = edges.defined() ? edges.const_data_ptr<int64_t>() : nullptr,
        .num_rows = indptr.size(0) - 1};
  }
};

class DeviceEdges final : public Edges {
 public:
  DeviceEdges(Adjacency adjacency, const at::Device& device)
      : Edges(adjacency),
        device_(device),
        adjacency_(std::move(adjacency)),
        lists_({.indptr = CopyOf(adjacency_.indptr, device),
                .indices = CopyOf(adjacency_.indices, device),
                .edges = {}}),
        weights_(CopyOf(adjacency_.weights, device)) {}

  at::Tensor Sum(const at::Tensor& x) const override {
    return WeightedSum(lists_, weights_, /*heads=*/1, x);
  }

  // Products on devices are of float32.
  at::Tensor SumForProducts(const at::Tensor& x) const override {
    return Sum(x);
  }

  at::Tensor Sum(const at::Tensor& x,
                 const at::Tensor& weights) const override {
    return WeightedSum(lists_, weights, weights.size(1), x);
  }

  at::Tensor SumTransposed(const at::Tensor& gradient) override {
    return WeightedSum(transposed(), weights_, /*heads=*/1, gradient);
  }

  at::Tensor SumTransposed(const at::Tensor& gradient,
                           const at::Tensor& weights) override {
    return WeightedSum(transposed(), weights, weights.size(1), gradient);
  }

  at::Tensor DynamicAttention(const at::Tensor& sources,
                              const at::Tensor& destinations,
                              const at::Tensor& vectors) const override {
    return AttentionOf(Scored(sources, destinations, vectors));
  }

  DynamicGradient DynamicAttentionGradient(const at::Tensor& sources,
                                           const at::Tensor& destinations,
                                           const at::Tensor& vectors,
                                           const at::Tensor& attention,
                                           const at::Tensor& gradient) override;

 private:
  at::Tensor AttentionOf(const ScoreRows<const float>& scores,
                         int64_t heads) const override {
    return AttentionOf(Scored(scores, heads));
  }

  void AddAttentionGradient(const ScoreRows<const float>& scores,
                            const at::Tensor& attention, const at::Tensor& x,
                            const at::Tensor& gradient,
                            const ScoreRows<float>& result) override {
    AddScoreGradient(Scored(scores, attention.size(1)),
                     ByScores(attention, x, gradient), result.destinations,
                     result.sources, /*by_vectors=*/nullptr);
  }

  // GAT's scores are GATv2's with one channel and an attention of 1.
  HearthCudaScored Scored(const ScoreRows<const float>& rows,
                          int64_t heads) const {
    return {.edges = lists_.view(),
            .own = rows.destinations,
            .other = rows.sources,
            .attention = nullptr,
            .heads = heads,
            .channels = 1,
            .stride = rows.stride};
  }

  HearthCudaScored Scored(const at::Tensor& sources,
                          const at::Tensor& destinations,
                          const at::Tensor& vectors) const {
    return {.edges = lists_.view(),
            .own = destinations.const_data_ptr<float>(),
            .other = sources.const_data_ptr<float>(),
            .attention = vectors.const_data_ptr<float>(),
            .heads = vectors.size(1),
            .channels = vectors.size(2),
            .stride = sources.size(1)};
  }

  at::Tensor Empty(int64_t rows, int64_t columns) const {
    return at::empty({rows, columns},
                     at::TensorOptions(device_).dtype(at::kFloat));
  }

  at::Tensor WeightedSum(const DeviceLists& lists, const at::Tensor& weights,
                         int64_t heads, const at::Tensor& x) const;
  at::Tensor AttentionOf(const HearthCudaScored& scored) const;

  // Gradient by scores, [num_edges, heads], where rows of `x` were summed by
  // `attention`, the softmax of the scores, and `gradient` is by the sums.
  at::Tensor ByScores(const at::Tensor& attention, const at::Tensor& x,
                      const at::Tensor& gradient) const;

  // From the gradient by scores: writes the gradient by destinations, adds the
  // gradient by sources, and writes each destination's contribution to the
  // gradient by the vectors, unless that is null.
  void AddScoreGradient(const HearthCudaScored& scored,
                        const at::Tensor& by_scores, float* by_destinations,
                        float* by_sources, float* by_vectors);

  const DeviceLists& transposed();

  const at::Device device_;
  const Adjacency adjacency_;
  const DeviceLists lists_;
  const at::Tensor weights_;
  std::optional<DeviceLists> transposed_;
};

const DeviceLists& DeviceEdges::transposed() {
  if (!transposed_) {
    const TransposedAdjacency made = Transpose(adjacency_);
    transposed_ = {.indptr = CopyOf(made.indptr, device_),
                   .indices = CopyOf(made.indices, device_),
                   .edges = CopyOf(made.edges, device_)};
  }
  return *transposed_;
}

at::Tensor DeviceEdges::WeightedSum(const DeviceLists& lists,
                                    const at::Tensor& weights, int64_t heads,
                                    const at::Tensor& x) const {
  const HearthCudaEdges edges = lists.view();
  at::Tensor result = Empty(edges.num_rows, x.size(1));
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.SumEdges({.edges = edges,
                            .weights = weights.const_data_ptr<float>(),
                            .source = x.const_data_ptr<float>(),
                            .heads = heads,
                            .channels = x.size(1) / heads,
                            .out = result.mutable_data_ptr<float>()});
  });
  return result;
}

at::Tensor DeviceEdges::AttentionOf(const HearthCudaScored& scored) const {
  at::Tensor result = Empty(num_edges(), scored.heads);
  auto* const values = result.mutable_data_ptr<float>();
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.ScoreEdges({.scored = scored, .scores = values});
  });
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.SoftmaxEdges({.edges = scored.edges,
                                .heads = scored.heads,
                                .softmax = nullptr,
                                .values = values});
  });
  return result;
}

at::Tensor DeviceEdges::ByScores(const at::Tensor& attention,
                                 const at::Tensor& x,
                                 const at::Tensor& gradient) const {
  const int64_t heads = attention.size(1);
  at::Tensor result = at::empty_like(attention);
  auto* const values = result.mutable_data_ptr<float>();
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.DotEdges({.edges = lists_.view(),
                            .own = gradient.const_data_ptr<float>(),
                            .other = x.const_data_ptr<float>(),
                            .heads = heads,
                            .channels = x.size(1) / heads,
                            .out = values});
  });
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.SoftmaxGradient({.edges = lists_.view(),
                                   .heads = heads,
                                   .softmax = attention.const_data_ptr<float>(),
                                   .values = values});
  });
  return result;
}

void DeviceEdges::AddScoreGradient(const HearthCudaScored& scored,
                                   const at::Tensor& by_scores,
                                   float* by_destinations, float* by_sources,
                                   float* by_vectors) {
  const auto* const given = by_scores.const_data_ptr<float>();
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.ScoreGradient({.scored = scored,
                                 .by_scores = given,
                                 .by_own = by_destinations,
                                 .by_attention = by_vectors,
                                 .adds = 0});
  });
  HearthCudaScored by_source = scored;
  by_source.edges = transposed().view();
  std::swap(by_source.own, by_source.other);
  DeviceKernels::Queue(device_, [&](cuda::Stream& stream) {
    return stream.ScoreGradient({.scored = by_source,
                                 .by_scores = given,
                                 .by_own = by_sources,
                                 .by_attention = nullptr,
                                 .adds = 1});
  });
}

Edges::DynamicGradient DeviceEdges::DynamicAttentionGradient(
    const at::Tensor& sources, const at::Tensor& destinations,
    const at::Tensor& vectors, const at::Tensor& attention,
    const at::Tensor& gradient) {
  DynamicGradient result;
  result.sources = SumTransposed(gradient, attention);
  result.destinations = at::empty_like(destinations);
  at::Tensor by_vectors = at::empty_like(destinations);
  AddScoreGradient(Scored(sources, destinations, vectors),
                   ByScores(attention, sources, gradient),
                   result.destinations.mutable_data_ptr<float>(),
                   result.sources.mutable_data_ptr<float>(),
                   by_vectors.mutable_data_ptr<float>());
  result.vectors = by_vectors.sum(0).view(vectors.sizes());
  return result;
}

}  // namespace

EdgesPtr NewDeviceEdges(Adjacency adjacency, const at::Device& device) {
  return std::make_shared<DeviceEdges>(std::move(adjacency), device);
}

}  // namespace hearth::model
