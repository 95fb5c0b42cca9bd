#include "engine/model/operators/matrix_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <type_traits>

#include "engine/base/byte_size.h"
#include "engine/model/cpu/product_operands.h"
#include "engine/model/operators/device_operators.h"
#include "engine/model/runtime/torch_boundary.h"

namespace hearth::model {
namespace {

// Rows that a thread computes at a time: few enough for even shares.
constexpr int64_t kRowsPerPart = 1024;
// Limits the memory for partial sums, and the number of threads that share a
// sum.
constexpr int64_t kMaxPartialSums = 32;
// Rows that a kernel multiplies at once: with their result they fit into
// caches.
constexpr int64_t kBlockRows = 64;
// Inner size of one call of a kernel, and columns of a right factor's tile,
// which fits into the second-level cache.
constexpr int64_t kTile = 256;
// oneDNN compiles a kernel for each size, so the size of the last block of rows
// is padded to a multiple of this.
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

// Splits rows into parts of `size` and calls `function(part, first, count)` for
// each, in parallel.
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

// A factor as kernels take it: float32; or bfloat16, where the right factor has
// its rows in pairs: [ceil(rows / 2), columns, 2].
template <typename T>
struct Matrix {
  T* data;
  int64_t stride;
};

// Columns of a right factor that a kernel multiplies at once. In float32 they
// fill four registers; the width for AVX-512 has not been measured.
template <typename T>
int64_t PanelColumns() {
  if constexpr (std::is_same_v<T, float>) {
#if defined(__x86_64__)
    static const int64_t columns =
        __builtin_cpu_supports("avx512f") != 0 ? 64 : 32;
    return columns;
#endif
  }
  return kTile;
}

// A right factor, [rows, columns], as consecutive dense panels of
// PanelColumns() columns. Rows that are a power of two apart would share few
// sets of the first-level cache: kernels for AVX2 took 1.7 times as long for
// columns of a matrix 1,024 wide.
template <typename T>
struct RightFactor {
  T* data;
  int64_t rows;
  int64_t columns;
};

// Calls `function(first, count, panel)` for each panel, with its columns and
// its begin.
template <typename T, typename F>
void ForPanels(const RightFactor<T>& right, const F& function) {
  const int64_t size = PanelColumns<std::remove_const_t<T>>();
  for (int64_t first = 0; first < right.columns; first += size) {
    function(first, std::min(size, right.columns - first),
             right.data + first * right.rows);
  }
}

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

// sum [m, columns] = or += a [m, rows] b [rows, columns].
template <typename T>
void Multiply(int64_t m, Matrix<const T> a, const RightFactor<const T>& b,
              bool add, Matrix<float> sum) {
  for (int64_t inner = 0; inner < b.rows; inner += kTile) {
    ForPanels(b, [&](int64_t first, int64_t count, const T* panel) {
      MultiplyTile(m, count, std::min(kTile, b.rows - inner),
                   Matrix<const T>{a.data + inner, a.stride},
                   Matrix<const T>{panel + inner * count, count},
                   add || inner > 0,
                   Matrix<float>{sum.data + first, sum.stride});
    });
  }
}

template <typename T>
at::Tensor EmptyMatrix(int64_t rows, int64_t columns) {
  return at::empty({rows, columns}, c10::CppTypeToScalarType<T>::value);
}

// Bits of bfloat16s, for code that knows no torch.
template <typename Bits>
Bits* BitsOf(const at::Tensor& tensor) {
  return reinterpret_cast<Bits*>(tensor.mutable_data_ptr<at::BFloat16>());
}

// A range of rows or columns.
struct Range {
  int64_t first;
  int64_t count;
};

// View of `x` with elements of type T; bfloat16s as bits.
template <typename T = float>
MatrixBlock<T> BlockOf(const at::Tensor& x, const Range& rows,
                       const Range& columns) {
  return {.data = static_cast<const T*>(x.const_data_ptr()) +
                  rows.first * x.stride(0) + columns.first,
          .rows = rows.count,
          .columns = columns.count,
          .stride = x.stride(0)};
}

template <typename T = float>
MatrixBlock<T> BlockOf(const at::Tensor& x, int64_t first, int64_t count) {
  return BlockOf<T>(x, {first, count}, {0, x.size(1)});
}

// View of some columns of a block.
template <typename T>
MatrixBlock<T> Columns(const MatrixBlock<T>& block, int64_t first,
                       int64_t count) {
  return {.data = block.data + first,
          .rows = block.rows,
          .columns = count,
          .stride = block.stride};
}

bool IsRounded(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

// Left factors of products, block by block, and the right factor, which all
// blocks share.
template <typename T>
class Term;

template <>
class Term<float> {
 public:
  explicit Term(const Factors& factors)
      : x_(factors.x), right_(EmptyMatrix<float>(inner(), factors.w.size(0))) {
    const at::Tensor w = factors.w.t().contiguous();
    CopyPanels(BlockOf(w, 0, inner()), PanelColumns<float>(), inner(),
               right_.mutable_data_ptr<float>());
  }

  int64_t inner() const { return x_.size(1); }
  RightFactor<const float> right() const {
    return {right_.const_data_ptr<float>(), inner(), right_.size(1)};
  }

  // Rows [first, first + count), followed by zeros up to `padded` rows; copied
  // to `scratch` if they cannot be used in place.
  Matrix<const float> Left(int64_t first, int64_t count, int64_t padded,
                           at::Tensor& scratch) const {
    const MatrixBlock<float> block = BlockOf(x_, first, count);
    if (count == padded) return {block.data, block.stride};
    if (!scratch.defined()) scratch = EmptyMatrix<float>(kBlockRows, inner());
    CopyPanels(block, block.columns, padded, scratch.mutable_data_ptr<float>());
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
    const MatrixBlock<float> block = BlockOf(w, 0, w.size(0));
    ForPanels(RightFactor<Bfloat16Bits>{BitsOf<Bfloat16Bits>(right_), inner_,
                                        right_.size(1)},
              [&](int64_t first, int64_t count, Bfloat16Bits* panel) {
                PairRows(Columns(block, first, count),
                         reinterpret_cast<Bfloat16Pair*>(panel));
              });
  }

  int64_t inner() const { return inner_; }
  RightFactor<const at::BFloat16> right() const {
    return {right_.const_data_ptr<at::BFloat16>(), inner_, right_.size(1)};
  }

  Matrix<const at::BFloat16> Left(int64_t first, int64_t count, int64_t padded,
                                  at::Tensor& scratch) const {
    if (IsRounded(x_) && count == padded && inner_ == x_.size(1)) {
      return {x_.const_data_ptr<at::BFloat16>() + first * x_.stride(0),
              x_.stride(0)};
    }
    if (!scratch.defined()) {
      // Zeros, because a column may be added to make the inner size even.
      scratch = at::zeros({kBlockRows, inner_}, at::kBFloat16);
    }
    auto* const bits = BitsOf<Bfloat16Bits>(scratch);
    if (IsRounded(x_)) {
      const auto block = BlockOf<Bfloat16Bits>(x_, first, count);
      for (int64_t row = 0; row < count; ++row) {
        std::copy_n(block.data + row * block.stride, block.columns,
                    bits + row * inner_);
      }
    } else {
      RoundRows(BlockOf(x_, first, count), inner_, bits);
    }
    std::fill_n(bits + count * inner_, (padded - count) * inner_,
                Bfloat16Bits{0});
    return {scratch.const_data_ptr<at::BFloat16>(), inner_};
  }

 private:
  const at::Tensor x_;
  const int64_t inner_;
  const at::Tensor right_;
};

// What happens before and after the terms of a sum of products.
struct SumFrame {
  // Former values of the target: replaced; the sum begins with them; or the
  // complete sum is added to them.
  enum class Before { kReplaced, kBegins, kAddedTo } before = Before::kReplaced;
  // First value of every row of a sum that replaces; may be null.
  const float* bias = nullptr;
  // Activation of the sum, which is dense then; may be null.
  const ReluActivation* activation = nullptr;
};

// Computes blocks of rows of a sum of products, on one thread.
template <typename T>
class BlockSums {
 public:
  BlockSums(absl::Span<const Term<T>> terms, const SumFrame& frame,
            const at::Tensor& sum)
      : terms_(terms),
        frame_(frame),
        sum_(sum),
        out_(sum.size(1)),
        left_(terms.size()) {}

  // REQUIRES: count <= kBlockRows.
  void Compute(int64_t first, int64_t count) {
    float* const rows = sum_.mutable_data_ptr<float>() + first * sum_.stride(0);
    const int64_t padded = RoundUp(count, kPadding);
    const bool is_added = frame_.before == SumFrame::Before::kAddedTo;
    Matrix<float> target = {rows, sum_.stride(0)};
    if (padded != count || is_added) {
      if (!tail_.defined()) tail_ = EmptyMatrix<float>(kBlockRows, out_);
      target = {tail_.mutable_data_ptr<float>(), out_};
    }
    bool add = Begin(rows, count, target);
    for (size_t term = 0; term < terms_.size(); ++term) {
      Multiply(padded, terms_[term].Left(first, count, padded, left_[term]),
               terms_[term].right(), add, target);
      add = true;
    }
    if (is_added) {
      AddTo(target.data, {rows, sum_.stride(0)}, count);
    } else if (target.data != rows) {
      for (int64_t row = 0; row < count; ++row) {
        std::copy_n(target.data + row * out_, out_,
                    rows + row * sum_.stride(0));
      }
    }
    if (frame_.activation != nullptr) {
      frame_.activation->Apply(sum_.mutable_data_ptr<float>(), first * out_,
                               (first + count) * out_);
    }
  }

 private:
  void AddTo(const float* from, Matrix<float> to, int64_t count) const {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t column = 0; column < out_; ++column) {
        to.data[row * to.stride + column] += from[row * out_ + column];
      }
    }
  }

  // Returns whether `target` now has values to which terms are added.
  bool Begin(const float* rows, int64_t count, Matrix<float> target) const {
    const bool begins = frame_.before == SumFrame::Before::kBegins;
    if (!begins && frame_.bias == nullptr) return false;
    if (begins && target.data == rows) return true;
    for (int64_t row = 0; row < count; ++row) {
      const float* from = begins ? rows + row * sum_.stride(0) : frame_.bias;
      std::copy_n(from, out_, target.data + row * target.stride);
    }
    return true;
  }

  const absl::Span<const Term<T>> terms_;
  const SumFrame& frame_;
  const at::Tensor& sum_;
  const int64_t out_;
  // Scratch, allocated on first use.
  std::vector<at::Tensor> left_;
  at::Tensor tail_;
};

template <typename T>
void ComputeSums(absl::Span<const Factors> factors, const SumFrame& frame,
                 const at::Tensor& sum) {
  const std::vector<Term<T>> terms(factors.begin(), factors.end());
  ForParts(sum.size(0), kRowsPerPart,
           [&](int64_t, int64_t first, int64_t count) {
             BlockSums<T> blocks(terms, frame, sum);
             for (int64_t row = 0; row < count; row += kBlockRows) {
               blocks.Compute(first + row, std::min(kBlockRows, count - row));
             }
           });
}

void ComputeSums(absl::Span<const Factors> factors, const SumFrame& frame,
                 const at::Tensor& sum) {
  const at::NoGradGuard no_gradients;
  if (product_precision == train::Precision::kBfloat16) {
    ComputeSums<at::BFloat16>(factors, frame, sum);
  } else {
    ComputeSums<float>(factors, frame, sum);
  }
}

// Rows that are added to the sums of a part at once.
struct InnerRows {
  Range rows;
  // Number of rows, zeros at the end included.
  int64_t padded;
};

// gᵀ of some rows: [out, kTile].
template <typename T>
class TransposedRows;

template <>
class TransposedRows<float> {
 public:
  TransposedRows(const MatrixBlock<float>& g, int64_t padded)
      : transposed_(EmptyMatrix<float>(g.columns, kTile)) {
    auto* const data = transposed_.mutable_data_ptr<float>();
    TransposeBlock(g, kTile, data);
    for (int64_t row = 0; row < g.columns && g.rows < padded; ++row) {
      std::fill_n(data + row * kTile + g.rows, padded - g.rows, 0.0f);
    }
  }

  Matrix<const float> matrix() const {
    return {transposed_.const_data_ptr<float>(), kTile};
  }

 private:
  at::Tensor transposed_;
};

// Rows of `block` in pairs, with zeros up to `padded` rows.
template <typename T>
void PairPadded(const MatrixBlock<T>& block, int64_t padded, Bfloat16Pair* to) {
  PairRows(block, to);
  const int64_t filled = (block.rows + 1) / 2;
  std::fill_n(to + filled * block.columns,
              (padded / 2 - filled) * block.columns, Bfloat16Pair{0});
}

template <>
class TransposedRows<at::BFloat16> {
 public:
  TransposedRows(const MatrixBlock<float>& g, int64_t padded)
      : transposed_(EmptyMatrix<at::BFloat16>(g.columns, kTile)) {
    // Pairs of rows, transposed, are adjacent columns.
    const at::Tensor pairs = EmptyMatrix<at::BFloat16>(padded, g.columns);
    PairPadded(g, padded, BitsOf<Bfloat16Pair>(pairs));
    TransposeBlock({.data = BitsOf<Bfloat16Pair>(pairs),
                    .rows = padded / 2,
                    .columns = g.columns,
                    .stride = g.columns},
                   kTile / 2, BitsOf<Bfloat16Pair>(transposed_));
  }

  Matrix<const at::BFloat16> matrix() const {
    return {transposed_.const_data_ptr<at::BFloat16>(), kTile};
  }

 private:
  at::Tensor transposed_;
};

// A tile of a right factor: rows and columns of `x`, in `scratch`, of kTile
// rows and columns.
RightFactor<const float> RightTile(const at::Tensor& x, const InnerRows& inner,
                                   const Range& columns, float* scratch) {
  CopyPanels(BlockOf(x, inner.rows, columns), PanelColumns<float>(),
             inner.padded, scratch);
  return {scratch, inner.padded, columns.count};
}

RightFactor<const at::BFloat16> RightTile(const at::Tensor& x,
                                          const InnerRows& inner,
                                          const Range& columns,
                                          at::BFloat16* scratch) {
  const RightFactor<at::BFloat16> tile = {scratch, inner.padded, columns.count};
  ForPanels(tile, [&](int64_t first, int64_t count, at::BFloat16* panel) {
    const auto pair = [&](const auto& block) {
      PairPadded(Columns(block, first, count), inner.padded,
                 reinterpret_cast<Bfloat16Pair*>(panel));
    };
    if (IsRounded(x)) {
      pair(BlockOf<Bfloat16Bits>(x, inner.rows, columns));
    } else {
      pair(BlockOf(x, inner.rows, columns));
    }
  });
  return {tile.data, tile.rows, tile.columns};
}

// Computes the gradients of parts of the rows, on one thread.
template <typename T>
class PartGradients {
 public:
  PartGradients(const RowGradient& g, absl::Span<const at::Tensor> xs)
      : g_(g), xs_(xs), out_(g.gradient.size(1)) {}

  ParameterGradients Compute(const Range& part, bool bias) {
    ParameterGradients result;
    for (const at::Tensor& x : xs_) {
      result.weights.push_back(EmptyMatrix<float>(out_, x.size(1)));
    }
    if (bias) result.bias = at::zeros({out_}, at::kFloat);
    for (int64_t row = 0; row < part.count; row += kGroupRows) {
      const Range group = {part.first + row,
                           std::min(kGroupRows, part.count - row)};
      AddGroup(group, /*add=*/row > 0, result);
    }
    return result;
  }

 private:
  // Rows whose gᵀ stays in the second-level cache, next to a tile of a
  // gradient, to which all of them are added before the next tile.
  static constexpr int64_t kGroupRows = 2 * kTile;

  struct Left {
    InnerRows inner;
    TransposedRows<T> rows;
  };

  void AddGroup(const Range& group, bool add, ParameterGradients& sums) {
    std::vector<Left> lefts;
    for (int64_t row = 0; row < group.count; row += kTile) {
      const Range rows = {group.first + row,
                          std::min(kTile, group.count - row)};
      const MatrixBlock<float> block = Through(rows);
      if (sums.bias.defined()) {
        AddRows(block, sums.bias.mutable_data_ptr<float>());
      }
      if (xs_.empty()) continue;
      const int64_t padded = RoundUp(rows.count, kPadding);
      lefts.push_back({{rows, padded}, TransposedRows<T>(block, padded)});
    }
    for (size_t i = 0; i < xs_.size(); ++i) {
      AddProducts(lefts, xs_[i], add, sums.weights[i]);
    }
  }

  // Gradient of the rows, through the activation if there is one.
  MatrixBlock<float> Through(const Range& rows) {
    const auto given = BlockOf(g_.gradient, rows.first, rows.count);
    if (!g_.activated.defined()) return given;
    if (!through_.defined()) through_ = EmptyMatrix<float>(kTile, out_);
    auto* const through = through_.mutable_data_ptr<float>();
    const auto activated = BlockOf(g_.activated, rows.first, rows.count);
    for (int64_t row = 0; row < rows.count; ++row) {
      ReluDropoutGradient(activated.data + row * activated.stride,
                          given.data + row * given.stride, g_.scale,
                          through + row * out_, 0, out_);
    }
    return BlockOf(through_, 0, rows.count);
  }

  void AddProducts(absl::Span<const Left> lefts, const at::Tensor& x, bool add,
                   const at::Tensor& sum) {
    if (!right_.defined()) right_ = EmptyMatrix<T>(kTile, kTile);
    for (int64_t column = 0; column < x.size(1); column += kTile) {
      const Range columns = {column, std::min(kTile, x.size(1) - column)};
      for (const Left& left : lefts) {
        Multiply(
            out_, left.rows.matrix(),
            RightTile(x, left.inner, columns, right_.mutable_data_ptr<T>()),
            add || &left != &lefts.front(),
            Matrix<float>{sum.mutable_data_ptr<float>() + column,
                          sum.stride(0)});
      }
    }
  }

  const RowGradient& g_;
  const absl::Span<const at::Tensor> xs_;
  const int64_t out_;
  // Scratch, allocated on first use.
  at::Tensor through_;
  at::Tensor right_;
};

// Rows of one part of a sum over `rows` rows.
int64_t RowsPerPartialSum(int64_t rows) {
  return std::max(
      kRowsPerPart,
      RoundUp((rows + kMaxPartialSums - 1) / kMaxPartialSums, kTile));
}

// Adds `parts` up in order, into the first.
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
ParameterGradients Gradients(const RowGradient& g,
                             absl::Span<const at::Tensor> xs, bool bias) {
  const int64_t rows = g.gradient.size(0);
  const int64_t size = RowsPerPartialSum(rows);
  std::vector<ParameterGradients> parts(
      static_cast<size_t>(NumPartialSums(rows)));
  ForParts(rows, size, [&](int64_t part, int64_t first, int64_t count) {
    parts[part] = PartGradients<T>(g, xs).Compute({first, count}, bias);
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

int64_t NumPartialSums(int64_t rows) {
  const int64_t size = RowsPerPartialSum(rows);
  return (rows + size - 1) / size;
}

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

namespace {

// Whether bfloat16 products take less time than float32: with AMX, or with
// AVX512_BF16 on AMD's processors. Intel's without AMX (a virtual machine may
// hide it) multiply as many numbers in a cycle as of float32, and round first:
// a step took 1.4 to 1.5 of the time.
bool MultipliesBfloat16Faster() {
#if defined(__x86_64__)
  constexpr unsigned kAmxBf16 = 1u << 22;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                       (edx & kAmxBf16) != 0;
  return has_amx || (__builtin_cpu_is("amd") != 0 &&
                     __builtin_cpu_supports("avx512bf16") != 0);
#else
  return false;
#endif
}

}  // namespace

train::Precision ResolvedPrecision(train::Precision precision) {
  if (precision != train::Precision::kAuto) return precision;
  return HasProducts(train::Precision::kBfloat16) && MultipliesBfloat16Faster()
             ? train::Precision::kBfloat16
             : train::Precision::kFloat32;
}

at::ScalarType FactorType() {
  return product_precision == train::Precision::kBfloat16 ? at::kBFloat16
                                                          : at::kFloat;
}

at::Tensor SumOfProducts(absl::Span<const Factors> terms,
                         const std::optional<at::Tensor>& bias,
                         const std::optional<ReluActivation>& activation) {
  if (!terms.front().x.is_cpu()) {
    return SumOfProductsOnDevice(terms, bias, activation);
  }
  at::Tensor sum =
      EmptyMatrix<float>(terms.front().x.size(0), terms.front().w.size(0));
  SumFrame frame;
  if (bias) frame.bias = bias->const_data_ptr<float>();
  if (activation) frame.activation = &*activation;
  ComputeSums(terms, frame, sum);
  return sum;
}

at::Tensor Product(const at::Tensor& x, const at::Tensor& w) {
  return SumOfProducts({{x, w}}, /*bias=*/std::nullopt);
}

void AddProduct(const at::Tensor& x, const at::Tensor& w,
                const at::Tensor& sum) {
  if (!sum.is_cpu()) return AddProductOnDevice(x, w, sum);
  ComputeSums({{x, w}}, {.before = SumFrame::Before::kBegins}, sum);
}

at::Tensor ThroughActivation(const RowGradient& rows) {
  if (!rows.gradient.is_cpu()) return ThroughActivationOnDevice(rows);
  if (!rows.activated.defined()) return rows.gradient;
  at::Tensor result = at::empty_like(rows.gradient);
  const auto* activated = rows.activated.const_data_ptr<float>();
  const auto* gradient = rows.gradient.const_data_ptr<float>();
  auto* through = result.mutable_data_ptr<float>();
  at::parallel_for(0, result.numel(), /*grain_size=*/1 << 14,
                   [&](int64_t begin, int64_t end) {
                     ReluDropoutGradient(activated, gradient, rows.scale,
                                         through, begin, end);
                   });
  return result;
}

void AddRoundedProduct(const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& sum) {
  if (!sum.is_cpu()) return AddProductOnDevice(x, w, sum);
  ComputeSums({{x, w}}, {.before = SumFrame::Before::kAddedTo}, sum);
}

ParameterGradients TransposedProducts(const RowGradient& g,
                                      absl::Span<const at::Tensor> xs,
                                      bool bias) {
  if (!g.gradient.is_cpu()) return TransposedProductsOnDevice(g, xs, bias);
  const at::NoGradGuard no_gradients;
  if (g.gradient.size(0) == 0) return ZeroGradients(g.gradient, xs, bias);
  return product_precision == train::Precision::kBfloat16
             ? Gradients<at::BFloat16>(g, xs, bias)
             : Gradients<float>(g, xs, bias);
}

at::Tensor TransposedProduct(const at::Tensor& g, const at::Tensor& x) {
  return TransposedProducts({.gradient = g}, {x}, /*bias=*/false)
      .weights.front();
}

at::Tensor ColumnSums(const at::Tensor& x) {
  return TransposedProducts({.gradient = x}, {}, /*bias=*/true).bias;
}

}  // namespace hearth::model
