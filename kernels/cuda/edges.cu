#include <cmath>
#include <cstdint>

#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/launch.cuh"

// Sums, products and attention along edges.

namespace hearth::kernels {
namespace {

// Where the edge at position `i` of the lists stands in arrays of edges.
__device__ inline int64_t PlaceOf(const HearthCudaEdges& edges, int64_t i) {
  return edges.edges == nullptr ? i : edges.edges[i];
}

bool IsValid(const HearthCudaEdges& edges, int64_t heads, int64_t channels) {
  return edges.num_rows >= 0 && heads >= 0 && channels >= 0;
}

// A warp takes a row of the output, a thread `kCount` columns of it, all of one
// head.
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

// The slope of LeakyReLU in scores.
constexpr float kSlope = 0.2f;

__device__ inline float AttentionAt(const HearthCudaScored& scored,
                                    int64_t column) {
  return scored.attention == nullptr ? 1.0f : scored.attention[column];
}

// A warp takes a row, a thread an edge of it and a head.
__global__ void ScoresKernel(HearthCudaScores scores) {
  const HearthCudaScored& scored = scores.scored;
  const int64_t heads = scored.heads;
  for (int64_t row = FirstRow(); row < scored.edges.num_rows;
       row += RowStride()) {
    const int64_t first = scored.edges.indptr[row];
    const int64_t count = (scored.edges.indptr[row + 1] - first) * heads;
    for (int64_t item = Lane(); item < count; item += kWarp) {
      const int64_t begin = item % heads * scored.channels;
      const float* own = scored.own + row * scored.stride;
      const float* other =
          scored.other +
          scored.edges.indices[first + item / heads] * scored.stride;
      float score = 0;
      for (int64_t c = begin; c < begin + scored.channels; ++c) {
        const float sum = own[c] + other[c];
        score =
            fmaf(AttentionAt(scored, c), sum > 0 ? sum : kSlope * sum, score);
      }
      scores.scores[first * heads + item] = score;
    }
  }
}

// Calls `function(begin, end)` for this thread's pairs of a row and a head: the
// values of its edges are those from `begin` on, `heads` apart.
template <typename F>
__device__ void ForRowHeads(const HearthCudaSoftmax& softmax,
                            const F& function) {
  const int64_t heads = softmax.heads;
  for (int64_t item = FirstItem(); item < softmax.edges.num_rows * heads;
       item += ItemStride()) {
    const int64_t row = item / heads;
    function(softmax.edges.indptr[row] * heads + item % heads,
             softmax.edges.indptr[row + 1] * heads);
  }
}

__global__ void SoftmaxKernel(HearthCudaSoftmax softmax) {
  const int64_t heads = softmax.heads;
  ForRowHeads(softmax, [&](int64_t begin, int64_t end) {
    float highest = -INFINITY;
    for (int64_t i = begin; i < end; i += heads) {
      if (softmax.values[i] > highest) highest = softmax.values[i];
    }
    float total = 0;
    for (int64_t i = begin; i < end; i += heads) {
      softmax.values[i] = expf(softmax.values[i] - highest);
      total += softmax.values[i];
    }
    for (int64_t i = begin; i < end; i += heads) softmax.values[i] /= total;
  });
}

__global__ void SoftmaxGradientKernel(HearthCudaSoftmax softmax) {
  const int64_t heads = softmax.heads;
  ForRowHeads(softmax, [&](int64_t begin, int64_t end) {
    float mean = 0;
    for (int64_t i = begin; i < end; i += heads) {
      mean = fmaf(softmax.softmax[i], softmax.values[i], mean);
    }
    for (int64_t i = begin; i < end; i += heads) {
      softmax.values[i] = softmax.softmax[i] * (softmax.values[i] - mean);
    }
  });
}

// A warp takes a row, a thread a column of it.
__global__ void ScoreGradientKernel(HearthCudaScoreGradient gradient) {
  const HearthCudaScored& scored = gradient.scored;
  const int64_t width = scored.heads * scored.channels;
  for (int64_t row = FirstRow(); row < scored.edges.num_rows;
       row += RowStride()) {
    const int64_t end = scored.edges.indptr[row + 1];
    for (int64_t column = Lane(); column < width; column += kWarp) {
      const int64_t head = column / scored.channels;
      const int64_t place = row * scored.stride + column;
      const float attention = AttentionAt(scored, column);
      float by_own = gradient.adds != 0 ? gradient.by_own[place] : 0;
      float by_attention = 0;
      for (int64_t i = scored.edges.indptr[row]; i < end; ++i) {
        const float by_score =
            gradient.by_scores[PlaceOf(scored.edges, i) * scored.heads + head];
        const float sum =
            scored.own[place] +
            scored.other[scored.edges.indices[i] * scored.stride + column];
        const float slope = sum > 0 ? 1.0f : kSlope;
        by_own = fmaf(by_score * slope, attention, by_own);
        by_attention = fmaf(by_score, sum * slope, by_attention);
      }
      gradient.by_own[place] = by_own;
      if (gradient.by_attention != nullptr) {
        gradient.by_attention[row * width + column] = by_attention;
      }
    }
  }
}

template <typename Kernel>
cudaError_t LaunchSoftmaxKernel(Kernel kernel, const HearthCudaSoftmax& softmax,
                                cudaStream_t stream) {
  if (!IsValid(softmax.edges, softmax.heads, 0)) return cudaErrorInvalidValue;
  const int64_t items = softmax.edges.num_rows * softmax.heads;
  if (items == 0) return cudaSuccess;
  return LaunchItems(kernel, items, softmax, stream);
}

bool HasValidSizes(const HearthCudaScored& scored) {
  return IsValid(scored.edges, scored.heads, scored.channels) &&
         scored.stride >= scored.heads * scored.channels;
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

cudaError_t LaunchScores(const HearthCudaScores& scores, cudaStream_t stream) {
  const HearthCudaScored& scored = scores.scored;
  if (!HasValidSizes(scored)) return cudaErrorInvalidValue;
  if (scored.edges.num_rows == 0) return cudaSuccess;
  return LaunchRows(ScoresKernel, scored.edges.num_rows, scores, stream);
}

cudaError_t LaunchSoftmax(const HearthCudaSoftmax& softmax,
                          cudaStream_t stream) {
  return LaunchSoftmaxKernel(SoftmaxKernel, softmax, stream);
}

cudaError_t LaunchSoftmaxGradient(const HearthCudaSoftmax& softmax,
                                  cudaStream_t stream) {
  return LaunchSoftmaxKernel(SoftmaxGradientKernel, softmax, stream);
}

cudaError_t LaunchScoreGradient(const HearthCudaScoreGradient& gradient,
                                cudaStream_t stream) {
  const HearthCudaScored& scored = gradient.scored;
  if (!HasValidSizes(scored)) return cudaErrorInvalidValue;
  if (scored.edges.num_rows == 0) return cudaSuccess;
  return LaunchRows(ScoreGradientKernel, scored.edges.num_rows, gradient,
                    stream);
}

}  // namespace hearth::kernels
