#include "engine/cuda/fake_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/feature_rows.h"
#include "kernels/gather.h"
#include "kernels/scatter.h"

namespace hearth::cuda {
namespace {

kernels::ElementType TypeOf(HearthCudaElement element) {
  switch (element) {
    case HEARTH_CUDA_FLOAT16:
      return kernels::ElementType::kFloat16;
    case HEARTH_CUDA_BFLOAT16:
      return kernels::ElementType::kBFloat16;
    default:
      return kernels::ElementType::kFloat32;
  }
}

size_t RowBytes(HearthCudaElement element, int64_t dim) {
  return static_cast<size_t>(dim) * (element == HEARTH_CUDA_FLOAT32 ? 4 : 2);
}

// Rows of a matrix of which these are touched. REQUIRES: count > 0.
template <typename Row>
size_t Extent(const Row* rows, int64_t count) {
  return static_cast<size_t>(*std::max_element(rows, rows + count)) + 1;
}

bool RunPart(const FakeMemory& memory, const HearthCudaScatter& scatter,
             const HearthCudaScatterPart& part) {
  const auto count = static_cast<size_t>(part.count);
  const int64_t* const slots =
      memory.ReachFromKernel(part.slots, count * sizeof(int64_t));
  if (slots == nullptr && part.slots != nullptr) return false;
  const int32_t* const positions =
      memory.ReachFromKernel(part.positions, count * sizeof(int32_t));
  if (positions == nullptr) return false;
  const size_t num_rows = slots == nullptr ? count : Extent(slots, part.count);
  const void* const rows = memory.ReachFromKernel(
      part.rows, num_rows * RowBytes(scatter.element, scatter.dim));
  float* const out = memory.ReachFromKernel(
      scatter.out, Extent(positions, part.count) *
                       RowBytes(HEARTH_CUDA_FLOAT32, scatter.dim));
  if (rows == nullptr || out == nullptr) return false;
  kernels::ScatterRows({static_cast<const std::byte*>(rows),
                        TypeOf(scatter.element), scatter.dim},
                       slots, positions, part.count, out);
  return true;
}

}  // namespace

bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather) {
  if (gather.count == 0 || gather.dim == 0) return true;
  const auto count = static_cast<size_t>(gather.count);
  const int64_t* const indices =
      memory.ReachFromKernel(gather.indices, count * sizeof(int64_t));
  if (indices == nullptr) return false;
  const void* const source = memory.ReachFromKernel(
      gather.source,
      Extent(indices, gather.count) * RowBytes(gather.element, gather.dim));
  float* const out = memory.ReachFromKernel(
      gather.out, count * RowBytes(HEARTH_CUDA_FLOAT32, gather.dim));
  if (source == nullptr || out == nullptr) return false;
  kernels::GatherRows({static_cast<const std::byte*>(source),
                       TypeOf(gather.element), gather.dim},
                      indices, gather.count, out);
  return true;
}

bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter) {
  return std::all_of(std::begin(scatter.parts), std::end(scatter.parts),
                     [&](const HearthCudaScatterPart& part) {
                       return part.count == 0 || scatter.dim == 0 ||
                              RunPart(memory, scatter, part);
                     });
}

}  // namespace hearth::cuda
