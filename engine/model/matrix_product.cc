#include "engine/model/matrix_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <type_traits>

#include "engine/base/round_up.h"
#include "engine/model/product_operands.h"
#include "engine/model/thread_count.h"

namespace hearth::model {
namespace {

// Work of a thread at a time: small enough for even shares.
constexpr int64_t kRowsPerPart = 1024;
// Bounds the memory for partial sums, and the threads that share a sum.
constexpr int64_t kMaxPartialSums = 32;
// Rows that a kernel multiplies at once: they and their result fit the caches.
constexpr int64_t kBlockRows = 64;
// Columns and inner size of one call of a kernel: the small matrix's tile fits
// the second cache.
constexpr int64_t kTile = 256;
// oneDNN compiles a kernel for each size: sizes of the last block of rows are
// padded to multiples of this.
constexpr int64_t kPadding = 16;

thread_local train::Precision product_precision = train::Precision::kFloat32;

bool HasBlockKernels() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
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

// A factor as kernels take it: float32, or bfloat16, of which the right factor
// has its rows in pairs: [ceil(rows / 2), columns, 2].
template <typename T>
struct Matrix {
  T* data;
  int64_t stride;
};

// sum [m, n] = or += a [m, k] b [k, n].
void MultiplyTile(int64_t m, int64_t n, int64_t k, Matrix<const float> a,
                  Matrix<const float> b, bool add, Matrix<float> sum) {
  if (HasBlockKernels()) {
    at::native::cpublas::brgemm(m, n, k, a.stride, b.stride, sum.stride, add,
                                a.data, b.data, sum.data);
    return;
  }
  const auto tensor = [](const auto& matrix, int64_t rows, int64_t columns) {
    return at::from_blob(const_cast<float*>(matrix.data), {rows, columns},
                         {matrix.stride, 1}, at::kFloat);
  };
  tensor(sum, m, n).addmm_(tensor(a, m, k), tensor(b, k, n),
                           /*beta=*/add ? 1 : 0, /*alpha=*/1);
}

void MultiplyTile(int64_t m, int64_t n, int64_t k, Matrix<const at::BFloat16> a,
                  Matrix<const at::BFloat16> b, bool add, Matrix<float> sum) {
  at::native::cpublas::brgemm(m, n, k, a.stride, b.stride, sum.stride, add,
                              a.data, b.data, sum.data);
}

// Where the element at `row`, which is even, and `column` of a right factor
// lies.
template <typename T>
const T* RightElement(Matrix<const T> b, int64_t row, int64_t column) {
  constexpr int64_t kPair = std::is_same_v<T, at::BFloat16> ? 2 : 1;
  return b.data + row * b.stride + column * kPair;
}

// MultiplyTile for any sizes.
template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, Matrix<const T> a,
              Matrix<const T> b, bool add, Matrix<float> sum) {
  for (int64_t column = 0; column < n; column += kTile) {
    for (int64_t inner = 0; inner < k; inner += kTile) {
      MultiplyTile(m, std::min(kTile, n - column), std::min(kTile, k - inner),
                   Matrix<const T>{a.data + inner, a.stride},
                   Matrix<const T>{RightElement(b, inner, column), b.stride},
                   add || inner > 0,
                   Matrix<float>{sum.data + column, sum.stride});
    }
  }
}

template <typename T>
at::Tensor EmptyMatrix(int64_t rows, int64_t columns) {
  return at::empty({rows, columns}, c10::CppTypeToScalarType<T>::value);
}

MatrixBlock<float> BlockOf(const at::Tensor& x, int64_t first, int64_t count) {
  return {.data = x.const_data_ptr<float>() + first * x.stride(0),
          .rows = count,
          .columns = x.size(1),
          .stride = x.stride(0)};
}

// The bits of bfloat16s are written by code that knows no torch.
template <typename Bits>
Bits* BitsOf(const at::Tensor& tensor) {
  return reinterpret_cast<Bits*>(tensor.mutable_data_ptr<at::BFloat16>());
}

// Copies a block, and rows of zeros up to `rows`.
void CopyPadded(const MatrixBlock<float>& from, int64_t rows, float* to) {
  for (int64_t row = 0; row < from.rows; ++row) {
    to = std::copy_n(from.data + row * from.stride, from.columns, to);
  }
  std::fill_n(to, (rows - from.rows) * from.columns, 0.0f);
}

// Left factors of products, block by block, and the right factor, which all
// blocks share.
template <typename T>
class Term;

template <>
class Term<float> {
 public:
  explicit Term(const Factors& factors)
      : x_(factors.x), right_(factors.w.t().contiguous()) {}

  int64_t inner() const { return x_.size(1); }
  Matrix<const float> right() const {
    return {right_.const_data_ptr<float>(), right_.size(1)};
  }

  // Rows [first, first + count) and zeros up to `padded`, in `scratch` if they
  // cannot be used where they lie.
  Matrix<const float> Left(int64_t first, int64_t count, int64_t padded,
                           at::Tensor& scratch) const {
    const MatrixBlock<float> block = BlockOf(x_, first, count);
    if (count == padded) return {block.data, block.stride};
    if (!scratch.defined()) scratch = EmptyMatrix<float>(kBlockRows, inner());
    CopyPadded(block, padded, scratch.mutable_data_ptr<float>());
    return {scratch.const_data_ptr<float>(), inner()};
  }

 private:
  const at::Tensor x_;
  const at::Tensor right_;
};

template <>
class Term<at::BFloat16> {
 public:
  explicit Term(const Factors& factors)
      : x_(factors.x),
        inner_(RoundUp(x_.size(1), 2)),
        right_(EmptyMatrix<at::BFloat16>(inner_, factors.w.size(0))) {
    const at::Tensor w = factors.w.t().contiguous();
    PairRows(BlockOf(w, 0, w.size(0)), BitsOf<Bfloat16Pair>(right_));
  }

  int64_t inner() const { return inner_; }
  Matrix<const at::BFloat16> right() const {
    return {right_.const_data_ptr<at::BFloat16>(), right_.size(1)};
  }

  Matrix<const at::BFloat16> Left(int64_t first, int64_t count, int64_t padded,
                                  at::Tensor& scratch) const {
    if (!scratch.defined()) {
      // Zeros, also in the column that makes the inner size even.
      scratch = at::zeros({kBlockRows, inner_}, at::kBFloat16);
    }
    auto* const bits = BitsOf<Bfloat16Bits>(scratch);
    RoundRows(BlockOf(x_, first, count), inner_, bits);
    std::fill_n(bits + count * inner_, (padded - count) * inner_,
                Bfloat16Bits{0});
    return {scratch.const_data_ptr<at::BFloat16>(), inner_};
  }

 private:
  const at::Tensor x_;
  const int64_t inner_;
  const at::Tensor right_;
};

// Where a block of a sum of products begins.
enum class Start { kZero, kBias, kSum };

// Computes blocks of rows of a sum of products; one thread's.
template <typename T>
class BlockSums {
 public:
  BlockSums(absl::Span<const Term<T>> terms, const float* bias, Start start,
            const at::Tensor& sum)
      : terms_(terms),
        bias_(bias),
        start_(start),
        sum_(sum),
        out_(sum.size(1)),
        left_(terms.size()) {}

  // REQUIRES: count <= kBlockRows.
  void Compute(int64_t first, int64_t count) {
    float* const rows = sum_.mutable_data_ptr<float>() + first * sum_.stride(0);
    const int64_t padded = RoundUp(count, kPadding);
    Matrix<float> target = {rows, sum_.stride(0)};
    if (padded != count) {
      if (!tail_.defined()) tail_ = EmptyMatrix<float>(kBlockRows, out_);
      target = {tail_.mutable_data_ptr<float>(), out_};
    }
    Begin(rows, count, target);
    bool add = start_ != Start::kZero;
    for (size_t term = 0; term < terms_.size(); ++term) {
      Multiply(padded, out_, terms_[term].inner(),
               terms_[term].Left(first, count, padded, left_[term]),
               terms_[term].right(), add, target);
      add = true;
    }
    if (target.data == rows) return;
    for (int64_t row = 0; row < count; ++row) {
      std::copy_n(target.data + row * out_, out_, rows + row * sum_.stride(0));
    }
  }

 private:
  void Begin(const float* rows, int64_t count, Matrix<float> target) const {
    if (start_ == Start::kZero) return;
    if (start_ == Start::kSum && target.data == rows) return;
    for (int64_t row = 0; row < count; ++row) {
      const float* from =
          start_ == Start::kBias ? bias_ : rows + row * sum_.stride(0);
      std::copy_n(from, out_, target.data + row * target.stride);
    }
  }

  const absl::Span<const Term<T>> terms_;
  const float* const bias_;
  const Start start_;
  const at::Tensor& sum_;
  const int64_t out_;
  // Scratch, made when it is needed.
  std::vector<at::Tensor> left_;
  at::Tensor tail_;
};

template <typename T>
void ComputeSums(absl::Span<const Factors> factors, const float* bias,
                 Start start, const at::Tensor& sum) {
  const std::vector<Term<T>> terms(factors.begin(), factors.end());
  ForParts(sum.size(0), kRowsPerPart,
           [&](int64_t, int64_t first, int64_t count) {
             BlockSums<T> blocks(terms, bias, start, sum);
             for (int64_t row = 0; row < count; row += kBlockRows) {
               blocks.Compute(first + row, std::min(kBlockRows, count - row));
             }
           });
}

void ComputeSums(absl::Span<const Factors> factors, const float* bias,
                 Start start, const at::Tensor& sum) {
  const at::NoGradGuard no_gradients;
  if (product_precision == train::Precision::kBfloat16) {
    ComputeSums<at::BFloat16>(factors, bias, start, sum);
  } else {
    ComputeSums<float>(factors, bias, start, sum);
  }
}

// The rows of a part that enter its sums at once.
struct InnerRows {
  int64_t first;
  int64_t count;
  // With zeros that follow them.
  int64_t padded;
};

// Factors of transposed products, kTile rows at a time; one thread's.
template <typename T>
class TransposedFactors;

template <>
class TransposedFactors<float> {
 public:
  // gᵀ of some rows.
  Matrix<const float> Left(const at::Tensor& g, const InnerRows& rows) {
    const int64_t out = g.size(1);
    if (!left_.defined()) left_ = EmptyMatrix<float>(out, kTile);
    auto* const data = left_.mutable_data_ptr<float>();
    TransposeBlock(BlockOf(g, rows.first, rows.count), kTile, data);
    for (int64_t row = 0; row < out && rows.count < rows.padded; ++row) {
      std::fill_n(data + row * kTile + rows.count, rows.padded - rows.count,
                  0.0f);
    }
    return {data, kTile};
  }

  Matrix<const float> Right(const at::Tensor& x, const InnerRows& rows) {
    const MatrixBlock<float> block = BlockOf(x, rows.first, rows.count);
    if (rows.count == rows.padded) return {block.data, block.stride};
    right_ = EmptyMatrix<float>(rows.padded, block.columns);
    CopyPadded(block, rows.padded, right_.mutable_data_ptr<float>());
    return {right_.const_data_ptr<float>(), block.columns};
  }

 private:
  at::Tensor left_;
  at::Tensor right_;
};

template <>
class TransposedFactors<at::BFloat16> {
 public:
  Matrix<const at::BFloat16> Left(const at::Tensor& g, const InnerRows& rows) {
    const int64_t out = g.size(1);
    if (!left_.defined()) left_ = EmptyMatrix<at::BFloat16>(out, kTile);
    // Rows in pairs, transposed, are columns side by side.
    const Matrix<const at::BFloat16> pairs = Pairs(g, rows);
    TransposeBlock({.data = reinterpret_cast<const Bfloat16Pair*>(pairs.data),
                    .rows = rows.padded / 2,
                    .columns = out,
                    .stride = out},
                   kTile / 2, BitsOf<Bfloat16Pair>(left_));
    return {left_.const_data_ptr<at::BFloat16>(), kTile};
  }

  Matrix<const at::BFloat16> Right(const at::Tensor& x, const InnerRows& rows) {
    return Pairs(x, rows);
  }

 private:
  Matrix<const at::BFloat16> Pairs(const at::Tensor& x, const InnerRows& rows) {
    const int64_t columns = x.size(1);
    if (!pairs_.defined() || pairs_.size(1) != columns) {
      pairs_ = EmptyMatrix<at::BFloat16>(kTile, columns);
    }
    auto* const bits = BitsOf<Bfloat16Pair>(pairs_);
    PairRows(BlockOf(x, rows.first, rows.count), bits);
    const int64_t filled = (rows.count + 1) / 2;
    std::fill_n(bits + filled * columns, (rows.padded / 2 - filled) * columns,
                Bfloat16Pair{0});
    return {pairs_.const_data_ptr<at::BFloat16>(), columns};
  }

  at::Tensor left_;
  at::Tensor pairs_;
};

void AddRows(const MatrixBlock<float>& block, float* sums) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* values = block.data + row * block.stride;
    for (int64_t column = 0; column < block.columns; ++column) {
      sums[column] += values[column];
    }
  }
}

// The gradients of rows [first, first + count).
template <typename T>
ParameterGradients PartGradients(const at::Tensor& g,
                                 absl::Span<const at::Tensor> xs, bool bias,
                                 int64_t first, int64_t count) {
  const int64_t out = g.size(1);
  ParameterGradients part;
  for (const at::Tensor& x : xs) {
    part.weights.push_back(EmptyMatrix<float>(out, x.size(1)));
  }
  if (bias) part.bias = at::zeros({out}, at::kFloat);
  TransposedFactors<T> factors;
  for (int64_t row = 0; row < count; row += kTile) {
    const int64_t rows = std::min(kTile, count - row);
    const InnerRows inner = {first + row, rows, RoundUp(rows, kPadding)};
    if (bias) {
      AddRows(BlockOf(g, inner.first, rows),
              part.bias.mutable_data_ptr<float>());
    }
    if (xs.empty()) continue;
    const Matrix<const T> left = factors.Left(g, inner);
    for (size_t i = 0; i < xs.size(); ++i) {
      Multiply(out, xs[i].size(1), inner.padded, left,
               factors.Right(xs[i], inner), /*add=*/row > 0,
               Matrix<float>{part.weights[i].mutable_data_ptr<float>(),
                             xs[i].size(1)});
    }
  }
  return part;
}

// Adds `parts` up in their order, in the first of them.
at::Tensor SumOfParts(absl::Span<const at::Tensor> parts) {
  auto* const sum = parts.front().mutable_data_ptr<float>();
  at::parallel_for(0, parts.front().numel(), /*grain_size=*/4096,
                   [&](int64_t begin, int64_t end) {
                     for (size_t part = 1; part < parts.size(); ++part) {
                       const auto* more = parts[part].const_data_ptr<float>();
                       for (int64_t i = begin; i < end; ++i) sum[i] += more[i];
                     }
                   });
  return parts.front();
}

template <typename T>
ParameterGradients Gradients(const at::Tensor& g,
                             absl::Span<const at::Tensor> xs, bool bias) {
  const int64_t rows = g.size(0);
  const int64_t size =
      std::max(kRowsPerPart,
               RoundUp((rows + kMaxPartialSums - 1) / kMaxPartialSums, kTile));
  std::vector<ParameterGradients> parts((rows + size - 1) / size);
  ForParts(rows, size, [&](int64_t part, int64_t first, int64_t count) {
    parts[part] = PartGradients<T>(g, xs, bias, first, count);
  });
  const auto sum = [&](const auto& of_part) {
    std::vector<at::Tensor> tensors;
    for (const ParameterGradients& part : parts) {
      tensors.push_back(of_part(part));
    }
    return SumOfParts(tensors);
  };
  ParameterGradients result;
  for (size_t i = 0; i < xs.size(); ++i) {
    result.weights.push_back(
        sum([i](const ParameterGradients& part) { return part.weights[i]; }));
  }
  if (bias) {
    result.bias = sum([](const ParameterGradients& part) { return part.bias; });
  }
  return result;
}

ParameterGradients ZeroGradients(const at::Tensor& g,
                                 absl::Span<const at::Tensor> xs, bool bias) {
  ParameterGradients result;
  for (const at::Tensor& x : xs) {
    result.weights.push_back(at::zeros({g.size(1), x.size(1)}, at::kFloat));
  }
  if (bias) result.bias = at::zeros({g.size(1)}, at::kFloat);
  return result;
}

}  // namespace

ProductPrecision::ProductPrecision(train::Precision precision)
    : before_(product_precision) {
  product_precision = precision;
}

ProductPrecision::~ProductPrecision() { product_precision = before_; }

bool HasProducts(train::Precision precision) {
  if (precision != train::Precision::kBfloat16) return true;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0;
#else
  return false;
#endif
}

train::Precision ResolvedPrecision(train::Precision precision) {
  if (precision != train::Precision::kAuto) return precision;
#if defined(__x86_64__)
  if (HasProducts(train::Precision::kBfloat16) &&
      __builtin_cpu_supports("avx512bf16") != 0) {
    return train::Precision::kBfloat16;
  }
#endif
  return train::Precision::kFloat32;
}

at::Tensor SumOfProducts(absl::Span<const Factors> terms,
                         const std::optional<at::Tensor>& bias) {
  at::Tensor sum =
      EmptyMatrix<float>(terms.front().x.size(0), terms.front().w.size(0));
  if (bias) {
    ComputeSums(terms, bias->const_data_ptr<float>(), Start::kBias, sum);
  } else {
    ComputeSums(terms, /*bias=*/nullptr, Start::kZero, sum);
  }
  return sum;
}

at::Tensor Product(const at::Tensor& x, const at::Tensor& w) {
  return SumOfProducts({{x, w}}, /*bias=*/std::nullopt);
}

void AddProduct(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& sum) {
  ComputeSums({{x, w}}, /*bias=*/nullptr, Start::kSum, sum);
}

ParameterGradients TransposedProducts(const at::Tensor& g,
                                      absl::Span<const at::Tensor> xs,
                                      bool bias) {
  const at::NoGradGuard no_gradients;
  if (g.size(0) == 0) return ZeroGradients(g, xs, bias);
  return product_precision == train::Precision::kBfloat16
             ? Gradients<at::BFloat16>(g, xs, bias)
             : Gradients<float>(g, xs, bias);
}

at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x) {
  return TransposedProducts(g, {x}, /*bias=*/false).weights.front();
}

at::Tensor ColumnSums(const at::Tensor& x) {
  return TransposedProducts(x, {}, /*bias=*/true).bias;
}

}  // namespace hearth::model
