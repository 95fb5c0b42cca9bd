#include <cstdint>

#include "kernels/cuda/gather.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/widen_row.cuh"

namespace hearth::kernels {
namespace {

template <typename Element, int kCount>
__global__ void GatherKernel(HearthCudaGather gather) {
  for (int64_t row = FirstRow(); row < gather.count; row += RowStride()) {
    WidenRow<Element, kCount>(gather.source, gather.indices[row], gather.dim,
                              gather.out, row);
  }
}

template <typename Element>
cudaError_t LaunchOf(const HearthCudaGather& gather, cudaStream_t stream) {
  const bool wide = gather.dim % kWide<Element> == 0 &&
                    IsAligned(gather.source) && IsAligned(gather.out);
  const auto kernel =
      wide ? GatherKernel<Element, kWide<Element>> : GatherKernel<Element, 1>;
  return LaunchRows(kernel, gather.count, gather, stream);
}

}  // namespace

cudaError_t LaunchGather(const HearthCudaGather& gather, cudaStream_t stream) {
  if (gather.count < 0 || gather.dim < 0) return cudaErrorInvalidValue;
  if (gather.count == 0 || gather.dim == 0) return cudaSuccess;
  return ForElement(gather.element, [&](auto element) {
    return LaunchOf<decltype(element)>(gather, stream);
  });
}

}  // namespace hearth::kernels
