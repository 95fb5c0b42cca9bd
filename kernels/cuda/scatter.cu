#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scatter.cuh"
#include "kernels/cuda/widen_row.cuh"

namespace hearth::kernels {
namespace {

// Warps take the rows of all parts as if they were one list.
template <typename Element, int kCount>
__global__ void ScatterKernel(HearthCudaScatter scatter) {
  int64_t row = FirstRow();
#pragma unroll
  for (int i = 0; i < HEARTH_CUDA_SCATTER_PARTS; ++i) {
    const HearthCudaScatterPart& part = scatter.parts[i];
    for (; row < part.count; row += RowStride()) {
      const int64_t from = part.slots == nullptr ? row : part.slots[row];
      WidenRow<Element, kCount>(part.rows, from, scatter.dim, scatter.out,
                                part.positions[row]);
    }
    row -= part.count;
  }
}

template <typename Element>
cudaError_t LaunchOf(const HearthCudaScatter& scatter, int64_t count,
                     cudaStream_t stream) {
  bool wide = scatter.dim % kWide<Element> == 0 && IsAligned(scatter.out);
  for (const HearthCudaScatterPart& part : scatter.parts) {
    wide = wide && (part.count == 0 || IsAligned(part.rows));
  }
  const auto kernel =
      wide ? ScatterKernel<Element, kWide<Element>> : ScatterKernel<Element, 1>;
  return LaunchRows(kernel, count, scatter, stream);
}

}  // namespace

cudaError_t LaunchScatter(const HearthCudaScatter& scatter,
                          cudaStream_t stream) {
  int64_t count = 0;
  for (const HearthCudaScatterPart& part : scatter.parts) {
    if (part.count < 0) return cudaErrorInvalidValue;
    count += part.count;
  }
  if (scatter.dim < 0) return cudaErrorInvalidValue;
  if (count == 0 || scatter.dim == 0) return cudaSuccess;
  return ForElement(scatter.element, [&](auto element) {
    return LaunchOf<decltype(element)>(scatter, count, stream);
  });
}

}  // namespace hearth::kernels
