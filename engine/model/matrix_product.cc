#include "engine/model/matrix_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/model/thread_count.h"

namespace hearth::model {
namespace {

// Large enough for oneDNN's full speed, small enough for even shares.
constexpr int64_t kRowsPerPart = 1024;
// Bounds the memory for partial sums, and the threads that share a sum.
constexpr int64_t kMaxPartialSums = 32;

using LinearSignature = at::Tensor(const at::Tensor& input,
                                   const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias,
                                   c10::string_view activation,
                                   c10::List<std::optional<at::Scalar>> scalars,
                                   std::optional<c10::string_view> algorithm);

// oneDNN's product of dense matrices; LibTorch has it for compiled models.
at::Tensor OneDnnLinear(const at::Tensor& input, const at::Tensor& weight) {
  static const auto linear =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<LinearSignature>();
  return linear.call(input, weight, std::nullopt, "none",
                     c10::List<std::optional<at::Scalar>>(), "");
}

// Splits rows into parts of `size` and calls `function(part, first, count)`
// for each, on this thread's team.
template <typename F>
void ForParts(int64_t rows, int64_t size, const F& function) {
  const int64_t parts = (rows + size - 1) / size;
  at::parallel_for(0, parts, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    const ThreadCount single(1);
    const at::NoGradGuard no_gradients;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * size;
      function(part, first, std::min(size, rows - first));
    }
  });
}

}  // namespace

at::Tensor Product(const at::Tensor& x, const at::Tensor& w) {
  const at::NoGradGuard no_gradients;
  const int64_t rows = x.size(0);
  at::Tensor result = at::empty({rows, w.size(0)}, at::kFloat);
  ForParts(rows, kRowsPerPart, [&](int64_t, int64_t first, int64_t count) {
    result.narrow(0, first, count)
        .copy_(OneDnnLinear(x.narrow(0, first, count), w));
  });
  return result;
}

at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x) {
  const at::NoGradGuard no_gradients;
  const int64_t rows = x.size(0);
  if (rows == 0) return at::zeros({g.size(1), x.size(1)}, at::kFloat);
  const int64_t size =
      std::max(kRowsPerPart, (rows + kMaxPartialSums - 1) / kMaxPartialSums);
  std::vector<at::Tensor> sums((rows + size - 1) / size);
  ForParts(rows, size, [&](int64_t part, int64_t first, int64_t count) {
    sums[part] = OneDnnLinear(g.narrow(0, first, count).t(),
                              x.narrow(0, first, count).t());
  });
  for (size_t part = 1; part < sums.size(); ++part) sums[0].add_(sums[part]);
  return sums[0];
}

// Unlike at::sum, adds up in an order that threads do not change.
at::Tensor ColumnSums(const at::Tensor& x) {
  return TransposedProduct(x, at::ones({x.size(0), 1}, at::kFloat)).squeeze(1);
}

}  // namespace hearth::model
