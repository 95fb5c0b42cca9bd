#ifndef HEARTH_KERNELS_CUDA_EDGE_LISTS_CUH_
#define HEARTH_KERNELS_CUDA_EDGE_LISTS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hearth_cuda.h"

/// What the kernels over edges share.

namespace hearth::kernels {

/// Where the edge at position `i` of the lists stands in arrays of edges.
__device__ inline int64_t PlaceOf(const HearthCudaEdges& edges, int64_t i) {
  return edges.edges == nullptr ? i : edges.edges[i];
}

inline bool IsValid(const HearthCudaEdges& edges, int64_t heads,
                    int64_t channels) {
  return edges.num_rows >= 0 && heads >= 0 && channels >= 0;
}

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_CUDA_EDGE_LISTS_CUH_
