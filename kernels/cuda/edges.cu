#include <cmath>
#include <cstdint>

#include "kernels/cuda/edge_lists.cuh"
#include "kernels/cuda/edges.cuh"
#include "kernels/cuda/launch.cuh"

namespace hearth::kernels {
namespace {

// A warp takes a row of the output, a thread `kCount` of its columns, which are
// of one head.
template <int kCount>
__global__ void SumKernel(HearthCudaSum sum) {
  using Columns = Pack<float, kCount>;
  const int64_t width = sum.heads * sum.channels;
  const auto* source = reinterpret_cast<const Columns*>(sum.source);
  auto* out = reinterpret_cast<Columns*>(sum.out);
  for (int64_t row = FirstRow(); row < sum.edges.num_rows; row += RowStride()) {
    const int64_t end = sum.edges.indptr[row + 1];
    for (int64_t column = Lane() * kCount; column < width;
         column += kWarp * kCount) {
      const int64_t head = column / sum.channels;
      Columns total = {};
      for (int64_t i = sum.edges.indptr[row]; i < end; ++i) {
        const float weight =
            sum.weights[PlaceOf(sum.edges, i) * sum.heads + head];
        const Columns values =
            source[(sum.edges.indices[i] * width + column) / kCount];
        for (int k = 0; k < kCount; ++k) {
          total.values[k] = fmaf(weight, values.values[k], total.values[k]);
        }
      }
      out[(row * width + column) / kCount] = total;
    }
  }
}

// A warp takes a row, a thread an edge of it and a head.
__global__ void DotsKernel(HearthCudaDots dots) {
  const int64_t width = dots.heads * dots.channels;
  for (int64_t row = FirstRow(); row < dots.edges.num_rows;
       row += RowStride()) {
    const int64_t first = dots.edges.indptr[row];
    const int64_t count = (dots.edges.indptr[row + 1] - first) * dots.heads;
    for (int64_t item = Lane(); item < count; item += kWarp) {
      const int64_t i = first + item / dots.heads;
      const int64_t head = item % dots.heads;
      const float* own = dots.own + row * width + head * dots.channels;
      const float* other =
          dots.other + dots.edges.indices[i] * width + head * dots.channels;
      float product = 0;
      for (int64_t c = 0; c < dots.channels; ++c) {
        product = fmaf(own[c], other[c], product);
      }
      dots.out[PlaceOf(dots.edges, i) * dots.heads + head] = product;
    }
  }
}

}  // namespace

cudaError_t LaunchSum(const HearthCudaSum& sum, cudaStream_t stream) {
  if (!IsValid(sum.edges, sum.heads, sum.channels)) {
    return cudaErrorInvalidValue;
  }
  if (sum.edges.num_rows == 0 || sum.heads * sum.channels == 0) {
    return cudaSuccess;
  }
  constexpr int kWide = kLoadBytes / sizeof(float);
  const bool wide =
      sum.channels % kWide == 0 && IsAligned(sum.source) && IsAligned(sum.out);
  const auto kernel = wide ? SumKernel<kWide> : SumKernel<1>;
  return LaunchRows(kernel, sum.edges.num_rows, sum, stream);
}

cudaError_t LaunchDots(const HearthCudaDots& dots, cudaStream_t stream) {
  if (!IsValid(dots.edges, dots.heads, dots.channels)) {
    return cudaErrorInvalidValue;
  }
  if (dots.edges.num_rows == 0) return cudaSuccess;
  return LaunchRows(DotsKernel, dots.edges.num_rows, dots, stream);
}

}  // namespace hearth::kernels
