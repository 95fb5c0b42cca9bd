#include "engine/model/row_functions.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "engine/model/device_transfer.h"
#include "engine/model/matrix_product.h"
#include "engine/model/saved_value.h"

namespace hearth::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Elements for which a thread is worth while.
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

// Numbers of rows, on a device.
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

// Adds each row of `source`, whose columns are dense, to the row of `sum` that
// `rows` names; none is named twice.
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
      // As many may be held as there are sets.
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
