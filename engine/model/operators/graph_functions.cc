#include "engine/model/operators/graph_functions.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "engine/model/operators/device_operators.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/model/runtime/device_streams.h"

namespace hearth::model {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor FirstRows(const SourceRows& x, const EdgesPtr& edges) {
  return x.First(edges->num_destinations());
}

// Calls `function(begin, end)` for ranges of a matrix's elements, each
// consisting of whole tiles of a dropout pattern.
template <typename F>
void ForElements(const at::Tensor& matrix, const F& function) {
  constexpr int64_t kTile = DropoutPattern::kTile;
  const int64_t count = matrix.numel();
  at::parallel_for(0, (count + kTile - 1) / kTile, /*grain_size=*/256,
                   [&](int64_t begin, int64_t end) {
                     function(begin * kTile, std::min(end * kTile, count));
                   });
}

// Applies the activation to all elements of `x`, in place.
void ActivateRows(const at::Tensor& x, const ReluActivation& activation) {
  if (!x.is_cpu()) return ActivateOnDevice(x, /*slope=*/0, activation.dropout);
  auto* data = x.mutable_data_ptr<float>();
  ForElements(x, [&](int64_t begin, int64_t end) {
    activation.Apply(data, begin, end);
  });
}

// Keeps what backward needs of `activation`, if there is one; one per context.
void SaveActivation(AutogradContext* context,
                    const std::optional<ReluActivation>& activation) {
  if (activation) context->saved_data["scale"] = double{activation->scale()};
}

// Gradient by `output`, which a function with the saved activation returned.
RowGradient LoadRowGradient(AutogradContext* context, const at::Tensor& output,
                            const at::Tensor& gradient) {
  RowGradient rows = {.gradient = gradient.contiguous()};
  const auto scale = context->saved_data.find("scale");
  if (scale != context->saved_data.end()) {
    rows.activated = output;
    rows.scale = static_cast<float>(scale->second.toDouble());
  }
  return rows;
}

class LinearFunction : public Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<ReluActivation>& activation) {
    at::Tensor result = SumOfProducts({{x, weight}}, bias, activation);
    SaveActivation(context, activation);
    context->saved_data["bias"] = bias.has_value();
    context->save_for_backward({x, weight, activation ? result : at::Tensor()});
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    RowGradient gradient = LoadRowGradient(context, saved[2], gradients[0]);
    variable_list result(4);
    if (context->needs_input_grad(0)) {
      gradient = {.gradient = ThroughActivation(gradient)};
      result[0] = Product(gradient.gradient, saved[1].t());
    }
    const ParameterGradients parameters = TransposedProducts(
        gradient, {saved[0]}, context->saved_data["bias"].toBool());
    result[1] = parameters.weights.front();
    result[2] = parameters.bias;
    return result;
  }
};

class AddBiasFunction : public Function<AddBiasFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& bias) {
    return x.add(bias);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    return {gradients[0], ColumnSums(gradients[0].contiguous())};
  }
};

class PropagateLinearFunction : public Function<PropagateLinearFunction> {
 public:
  // For rows in place `sources` has them, their sums come first, and `x` is
  // empty; else `sources` is `x`.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& root_weight,
                            const EdgesPtr& edges,
                            const std::optional<ReluActivation>& activation,
                            const SourceRows& sources, bool sums_first) {
    // Left factor of the product with the weight, which the weight's gradient
    // needs.
    const at::Tensor factor = !sums_first ? x
                              : sources.in_place() != nullptr
                                  ? edges->SumForProducts(*sources.in_place())
                                  : edges->SumForProducts(x);
    const at::Tensor first_rows =
        root_weight ? FirstRows(sources, edges) : at::Tensor();
    at::Tensor result;
    if (sums_first) {
      std::vector<Factors> terms = {{factor, weight}};
      if (root_weight) terms.push_back({first_rows, *root_weight});
      result = SumOfProducts(terms, bias, activation);
    } else {
      const at::Tensor sums = edges->Sum(Product(x, weight));
      if (root_weight) {
        result = SumOfProducts({{first_rows, *root_weight}}, bias);
        result.add_(sums);
      } else {
        result = bias ? sums.add_(*bias) : sums;
      }
      if (activation) ActivateRows(result, *activation);
    }
    SaveValue(context, edges);
    SaveActivation(context, activation);
    context->saved_data["sums_first"] = sums_first;
    context->saved_data["bias"] = bias.has_value();
    context->save_for_backward({factor, weight, first_rows,
                                root_weight.value_or(at::Tensor()),
                                activation ? result : at::Tensor()});
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& factor = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& first_rows = saved[2];
    const at::Tensor& root_weight = saved[3];
    const EdgesPtr edges = LoadValue<EdgesPtr>(context);
    const bool sums_first = context->saved_data["sums_first"].toBool();
    const bool bias = context->saved_data["bias"].toBool();
    const bool needs_input_gradient = context->needs_input_grad(0);

    RowGradient gradient = LoadRowGradient(context, saved[4], gradients[0]);
    if (needs_input_gradient || !sums_first) {
      gradient = {.gradient = ThroughActivation(gradient)};
    }
    variable_list result(8);
    std::vector<at::Tensor> factors;
    at::Tensor inner = gradient.gradient;
    if (sums_first) {
      factors.push_back(factor);
    } else {
      inner = edges->SumTransposed(gradient.gradient);
      result[1] = TransposedProduct(inner, factor);
    }
    if (root_weight.defined()) factors.push_back(first_rows);
    if (!factors.empty() || bias) {
      const ParameterGradients parameters =
          TransposedProducts(gradient, factors, bias);
      if (sums_first) result[1] = parameters.weights.front();
      if (root_weight.defined()) result[3] = parameters.weights.back();
      result[2] = parameters.bias;
    }
    if (needs_input_gradient) {
      result[0] = Product(inner, weight.t());
      if (sums_first) result[0] = edges->SumTransposed(result[0]);
      if (root_weight.defined()) {
        AddProduct(gradient.gradient, root_weight.t(),
                   FirstRows(result[0], edges));
      }
    }
    return result;
  }
};

class SumByAttentionFunction : public Function<SumByAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& score_weight,
                            const EdgesPtr& edges) {
    const at::Tensor scores = Product(x, score_weight);
    const at::Tensor attention = edges->Attention(scores);
    SaveValue(context, edges);
    context->save_for_backward({x, score_weight, scores, attention});
    return edges->Sum(x, attention);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& score_weight = saved[1];
    const at::Tensor& scores = saved[2];
    const at::Tensor& attention = saved[3];
    const EdgesPtr edges = LoadValue<EdgesPtr>(context);
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor by_scores =
        edges->AttentionGradient(scores, attention, x, gradient);
    const at::Tensor by_x = edges->SumTransposed(gradient, attention);
    AddRoundedProduct(by_scores, score_weight.t(), by_x);
    return {by_x, TransposedProduct(by_scores, x), at::Tensor()};
  }
};

class SumByScorePairFunction : public Function<SumByScorePairFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& source_scores,
                            const at::Tensor& destination_scores,
                            const EdgesPtr& edges) {
    const at::Tensor attention =
        edges->Attention(Edges::ScorePair{source_scores, destination_scores});
    SaveValue(context, edges);
    context->save_for_backward(
        {x, source_scores, destination_scores, attention});
    return edges->Sum(x, attention);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& attention = saved[3];
    const EdgesPtr edges = LoadValue<EdgesPtr>(context);
    const at::Tensor gradient = gradients[0].contiguous();
    auto scores = edges->AttentionGradient(Edges::ScorePair{saved[1], saved[2]},
                                           attention, saved[0], gradient);
    return {edges->SumTransposed(gradient, attention), scores.sources,
            scores.destinations, at::Tensor()};
  }
};

class SumByDynamicAttentionFunction
    : public Function<SumByDynamicAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& sources,
                            const at::Tensor& destinations,
                            const at::Tensor& vectors, const EdgesPtr& edges) {
    const at::Tensor attention =
        edges->DynamicAttention(sources, destinations, vectors);
    SaveValue(context, edges);
    context->save_for_backward({sources, destinations, vectors, attention});
    return edges->Sum(sources, attention);
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto saved = context->get_saved_variables();
    auto result = LoadValue<EdgesPtr>(context)->DynamicAttentionGradient(
        saved[0], saved[1], saved[2], saved[3], gradients[0].contiguous());
    return {result.sources, result.destinations, result.vectors, at::Tensor()};
  }
};

class ActivateFunction : public Function<ActivateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const ReluActivation& activation) {
    ActivateRows(x, activation);
    SaveActivation(context, activation);
    context->mark_dirty({x});
    context->save_for_backward({x});
    return x;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const at::Tensor output = context->get_saved_variables()[0];
    return {ThroughActivation(LoadRowGradient(context, output, gradients[0])),
            at::Tensor()};
  }
};

// Applies LeakyReLU and dropout to all elements of `x`, in place.
void LeakyActivateRows(const at::Tensor& x,
                       const std::optional<DropoutPattern>& dropout) {
  if (!x.is_cpu()) return ActivateOnDevice(x, kLeakyReluSlope, dropout);
  auto* data = x.mutable_data_ptr<float>();
  ForElements(x, [&](int64_t begin, int64_t end) {
    if (dropout) {
      dropout->ApplyLeakyRelu(data, begin, end);
    } else {
      ApplyLeakyRelu(data, begin, end);
    }
  });
}

// Gradient through LeakyReLU and dropout, where LeakyActivateRows gave
// `output`.
at::Tensor ThroughLeakyActivation(
    const at::Tensor& output, const at::Tensor& gradient,
    const std::optional<DropoutPattern>& dropout) {
  if (!output.is_cpu()) {
    return GradientOnDevice(output, gradient, kLeakyReluSlope, dropout);
  }
  at::Tensor result = at::empty_like(gradient);
  const auto* outputs = output.const_data_ptr<float>();
  const auto* given = gradient.const_data_ptr<float>();
  auto* wanted = result.mutable_data_ptr<float>();
  ForElements(result, [&](int64_t begin, int64_t end) {
    if (dropout) {
      dropout->LeakyReluGradient(outputs, given, wanted, begin, end);
    } else {
      LeakyReluGradient(outputs, given, wanted, begin, end);
    }
  });
  return result;
}

class LeakyReluDropoutFunction : public Function<LeakyReluDropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<DropoutPattern>& dropout) {
    LeakyActivateRows(x, dropout);
    context->mark_dirty({x});
    context->save_for_backward({x});
    SaveValue(context, dropout);
    return x;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    return {ThroughLeakyActivation(
                context->get_saved_variables()[0], gradients[0].contiguous(),
                LoadValue<std::optional<DropoutPattern>>(context)),
            at::Tensor()};
  }
};

}  // namespace

bool SumsFirst(const PropagateSizes& sizes) {
  // Multiply-adds of a product in the time in which a sum, bound by memory,
  // adds one element; measured with 256 to 1,024 columns.
  constexpr double kSumCost = 16;
  const double products = sizes.needs_input_gradient ? 3 : 2;
  const double weight = static_cast<double>(sizes.in) * sizes.out;
  const double edges = kSumCost * sizes.edges;
  const double sums_first =
      products * sizes.destinations * weight +
      (sizes.needs_input_gradient ? 2 : 1) * edges * sizes.in;
  const double products_first =
      products * sizes.sources * weight + 2 * edges * sizes.out;
  return sums_first <= products_first;
}

at::Tensor PropagateLinear(const SourceRows& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias,
                           const std::optional<at::Tensor>& root_weight,
                           const EdgesPtr& edges,
                           const std::optional<ReluActivation>& activation) {
  const bool sums_first =
      SumsFirst({.sources = edges->num_sources(),
                 .destinations = edges->num_destinations(),
                 .edges = edges->num_edges(),
                 .in = weight.size(1),
                 .out = weight.size(0),
                 .needs_input_gradient = x.requires_grad()});
  const bool in_place = sums_first && x.in_place() != nullptr;
  const at::Tensor matrix = in_place ? at::empty({0}) : x.Matrix();
  return PropagateLinearFunction::apply(
      matrix, weight, bias, root_weight, edges, activation,
      in_place ? x : SourceRows(matrix), sums_first);
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias,
                  const std::optional<ReluActivation>& activation) {
  return LinearFunction::apply(x, weight, bias, activation);
}

at::Tensor AddBias(const at::Tensor& x, const at::Tensor& bias) {
  return AddBiasFunction::apply(x, bias);
}

at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& score_weight,
                          const EdgesPtr& edges) {
  return SumByAttentionFunction::apply(x, score_weight, edges);
}

at::Tensor SumByAttention(const at::Tensor& x, const at::Tensor& source_scores,
                          const at::Tensor& destination_scores,
                          const EdgesPtr& edges) {
  return SumByScorePairFunction::apply(x, source_scores, destination_scores,
                                       edges);
}

at::Tensor SumByDynamicAttention(const at::Tensor& sources,
                                 const at::Tensor& destinations,
                                 const at::Tensor& vectors,
                                 const EdgesPtr& edges) {
  return SumByDynamicAttentionFunction::apply(sources, destinations, vectors,
                                              edges);
}

at::Tensor Activate(const at::Tensor& x,
                    const std::optional<ReluActivation>& activation) {
  return activation ? ActivateFunction::apply(x, *activation) : x;
}

at::Tensor LeakyReluDropout(const at::Tensor& x,
                            const std::optional<DropoutPattern>& dropout) {
  return LeakyReluDropoutFunction::apply(x, dropout);
}

namespace {

// Elements that make a thread worth while.
constexpr int64_t kElementsPerThread = 1 << 15;

// Calls `function(i)` for each of `count` rows of `columns` columns.
template <typename F>
void ForEachRow(int64_t count, int64_t columns, const F& function) {
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, columns));
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) function(i);
  });
}

// Copy of `rows` on a device.
at::Tensor OnDevice(const std::vector<int32_t>& rows,
                    const at::Device& device) {
  return ToDevice(at::from_blob(const_cast<int32_t*>(rows.data()),
                                {static_cast<int64_t>(rows.size())}, at::kInt),
                  device);
}

at::Tensor Gather(const at::Tensor& x, const RowSet& set) {
  if (!x.is_cpu()) {
    return x.narrow(1, 0, set.columns)
        .index_select(0, OnDevice(*set.rows, x.device()));
  }
  const auto count = static_cast<int64_t>(set.rows->size());
  const int64_t stride = x.size(1);
  at::Tensor result = at::empty({count, set.columns}, at::kFloat);
  const auto* from = x.const_data_ptr<float>();
  auto* to = result.mutable_data_ptr<float>();
  ForEachRow(count, set.columns, [&](int64_t i) {
    std::copy_n(from + (*set.rows)[i] * stride, set.columns,
                to + i * set.columns);
  });
  return result;
}

// Adds each row of `source`, which has dense columns, to the row of `sum` that
// `rows` names; no row is named twice.
void ScatterAdd(const at::Tensor& sum, const std::vector<int32_t>& rows,
                const at::Tensor& source) {
  const int64_t columns = source.size(1);
  if (!sum.is_cpu()) {
    sum.narrow(1, 0, columns)
        .index_add_(0, OnDevice(rows, sum.device()), source);
    return;
  }
  const int64_t stride = sum.size(1);
  const int64_t source_stride = source.stride(0);
  const auto* values = source.const_data_ptr<float>();
  auto* out = sum.mutable_data_ptr<float>();
  ForEachRow(static_cast<int64_t>(rows.size()), columns, [&](int64_t i) {
    const float* from = values + i * source_stride;
    float* to = out + rows[i] * stride;
    for (int64_t column = 0; column < columns; ++column) {
      to[column] += from[column];
    }
  });
}

class GatherRowsFunction : public Function<GatherRowsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const std::vector<RowSet>& sets) {
    SaveValue(context, sets);
    context->saved_data["rows"] = x.size(0);
    context->saved_data["columns"] = x.size(1);
    context->saved_data["device"] = x.device();
    variable_list result;
    result.reserve(sets.size());
    for (const RowSet& set : sets) result.push_back(Gather(x, set));
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const auto sets = LoadValue<std::vector<RowSet>>(context);
    const at::Tensor result =
        at::zeros({context->saved_data["rows"].toInt(),
                   context->saved_data["columns"].toInt()},
                  at::TensorOptions(context->saved_data["device"].toDevice())
                      .dtype(at::kFloat));
    for (size_t i = 0; i < sets.size(); ++i) {
      if (!gradients[i].defined()) continue;
      ScatterAdd(result, *sets[i].rows, gradients[i].contiguous());
      // Freed at once, as there may be as many gradients as sets.
      gradients[i] = at::Tensor();
    }
    return {result, at::Tensor()};
  }
};

class AddRowsFunction : public Function<AddRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& sum,
                            const at::Tensor& rows, const RowsPtr& positions) {
    SaveValue(context, positions);
    ScatterAdd(sum, *positions, rows);
    context->mark_dirty({sum});
    return sum;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const at::Tensor gradient = gradients[0].contiguous();
    return {gradient,
            Gather(gradient, {.rows = LoadValue<RowsPtr>(context),
                              .columns = gradient.size(1)}),
            at::Tensor()};
  }
};

class AddBiasToRowsFunction : public Function<AddBiasToRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& sum,
                            const at::Tensor& bias, const RowsPtr& positions) {
    SaveValue(context, positions);
    const auto count = static_cast<int64_t>(positions->size());
    ScatterAdd(sum, *positions, bias.expand({count, bias.size(0)}));
    context->mark_dirty({sum});
    return sum;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const at::Tensor gradient = gradients[0].contiguous();
    const auto rows = LoadValue<RowsPtr>(context);
    const bool all = static_cast<int64_t>(rows->size()) == gradient.size(0);
    return {gradient,
            ColumnSums(all ? gradient
                           : Gather(gradient, {.rows = rows,
                                               .columns = gradient.size(1)})),
            at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> GatherRows(const at::Tensor& x,
                                   const std::vector<RowSet>& sets) {
  return GatherRowsFunction::apply(x, sets);
}

at::Tensor AddRows(const at::Tensor& sum, const at::Tensor& rows,
                   const RowsPtr& positions) {
  return AddRowsFunction::apply(sum, rows, positions);
}

at::Tensor AddBiasToRows(const at::Tensor& sum, const at::Tensor& bias,
                         const RowsPtr& positions) {
  return AddBiasToRowsFunction::apply(sum, bias, positions);
}

}  // namespace hearth::model
