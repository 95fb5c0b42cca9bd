#include "engine/ingest/import/neighbor_means.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/io/coalesce.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"
#include "engine/store/float16.h"
#include "engine/store/verified_file.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kShareOfLimit = 16;
/// A node without neighbors takes no row, but its end is remembered.
constexpr size_t kMinEnds = 1024;

/// Adds the values of a row to `sums`.
void AddRow(const std::byte* row, store::DType dtype,
            std::vector<double>& sums) {
  const auto item_bytes = static_cast<size_t>(store::SizeOf(dtype));
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::byte* const at = row + i * item_bytes;
    float value;
    uint16_t bits;
    if (dtype == store::DType::kFloat32) {
      std::memcpy(&value, at, sizeof(value));
    } else {
      std::memcpy(&bits, at, sizeof(bits));
      value = dtype == store::DType::kFloat16 ? store::Float16ToFloat(bits)
                                              : store::BFloat16ToFloat(bits);
    }
    sums[i] += value;
  }
}

/// Stores sums / count.
void StoreMean(const std::vector<double>& sums, int64_t count,
               store::DType dtype, absl::Span<std::byte> to) {
  const auto item_bytes = static_cast<size_t>(store::SizeOf(dtype));
  for (size_t i = 0; i < sums.size(); ++i) {
    std::byte* const at = to.data() + i * item_bytes;
    const auto mean = static_cast<float>(
        count == 0 ? 0 : sums[i] / static_cast<double>(count));
    if (dtype == store::DType::kFloat32) {
      std::memcpy(at, &mean, sizeof(mean));
      continue;
    }
    const uint16_t bits = dtype == store::DType::kFloat16
                              ? store::FloatToFloat16(mean)
                              : store::FloatToBFloat16(mean);
    std::memcpy(at, &bits, sizeof(bits));
  }
}

/// A matrix, and the rows of it that are to be read.
struct Matrix {
  std::unique_ptr<io::ReadableFile> file;
  uint64_t data_offset = 0;
  io::RowLayout layout;
  std::vector<int64_t> rows;
  /// Where each of them goes among the rows of all matrices.
  std::vector<size_t> slots;
};

class BufferedMeans final : public NeighborMeans {
 public:
  BufferedMeans(ImportContext& context, store::DType dtype, size_t num_columns,
                size_t capacity, std::vector<Matrix> matrices, TakeMean take)
      : context_(context),
        dtype_(dtype),
        row_bytes_(num_columns * static_cast<size_t>(store::SizeOf(dtype))),
        capacity_(capacity),
        max_ends_(std::max(capacity, kMinEnds)),
        matrices_(std::move(matrices)),
        take_(std::move(take)),
        sums_(num_columns),
        mean_(row_bytes_) {}

  absl::Status Add(size_t matrix, absl::Span<const int64_t> rows) override {
    for (const int64_t row : rows) {
      matrices_[matrix].rows.push_back(row);
      matrices_[matrix].slots.push_back(num_rows_++);
      if (num_rows_ == capacity_) HEARTH_RETURN_IF_ERROR(Empty());
    }
    return absl::OkStatus();
  }

  absl::Status EndNode() override {
    ends_.push_back(num_rows_);
    return ends_.size() < max_ends_ ? absl::OkStatus() : Empty();
  }

  absl::Status Finish() override { return Empty(); }

 private:
  /// Reads the rows and adds them up; the last node may have more to come.
  absl::Status Empty() {
    memory_.resize(num_rows_ * row_bytes_);
    for (Matrix& matrix : matrices_) HEARTH_RETURN_IF_ERROR(ReadRows(matrix));
    size_t next = 0;
    const auto add_until = [&](size_t end) {
      count_ += static_cast<int64_t>(end - next);
      for (; next < end; ++next) {
        AddRow(memory_.data() + next * row_bytes_, dtype_, sums_);
      }
    };
    for (const size_t end : ends_) {
      add_until(end);
      StoreMean(sums_, count_, dtype_, absl::MakeSpan(mean_));
      HEARTH_RETURN_IF_ERROR(take_(mean_));
      std::fill(sums_.begin(), sums_.end(), 0.0);
      count_ = 0;
    }
    add_until(num_rows_);
    ends_.clear();
    num_rows_ = 0;
    // For a node with very many neighbors.
    return context_.Advance(0);
  }

  absl::Status ReadRows(Matrix& matrix) {
    HEARTH_RETURN_IF_ERROR(io::Coalesce(matrix.rows, matrix.layout,
                                        store::kRandomAccess.crc_block_bytes,
                                        io::ReadCost(), plan_));
    const uint64_t data_bytes = matrix.layout.RowOffset(matrix.layout.num_rows);
    for (const io::PlannedRead& read : plan_.reads) {
      // Blocks of checksums, the last of which may be a part of one.
      read_.resize(std::min(read.length, data_bytes - read.offset));
      HEARTH_RETURN_IF_ERROR(matrix.file->Read(matrix.data_offset + read.offset,
                                               absl::MakeSpan(read_)));
      for (size_t i = read.first_row; i < read.first_row + read.num_rows; ++i) {
        const auto& [row, position] = plan_.rows[i];
        std::memcpy(memory_.data() + matrix.slots[position] * row_bytes_,
                    read_.data() + (matrix.layout.RowOffset(row) - read.offset),
                    row_bytes_);
      }
    }
    matrix.rows.clear();
    matrix.slots.clear();
    return absl::OkStatus();
  }

  ImportContext& context_;
  const store::DType dtype_;
  const size_t row_bytes_;
  /// Rows that are read together.
  const size_t capacity_;
  const size_t max_ends_;
  std::vector<Matrix> matrices_;
  const TakeMean take_;
  size_t num_rows_ = 0;
  /// For each node whose neighbors are known, where its rows end.
  std::vector<size_t> ends_;
  std::vector<std::byte> memory_;
  io::ReadPlan plan_;
  std::vector<std::byte> read_;
  /// Sums and number of the rows that are being added for a node.
  std::vector<double> sums_;
  int64_t count_ = 0;
  std::vector<std::byte> mean_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NeighborMeans>> NewNeighborMeans(
    ImportContext& context, const std::string& folder,
    const std::vector<const store::ArrayFile*>& matrices,
    NeighborMeans::TakeMean take) {
  const store::ArrayFile& first = *matrices.front();
  const auto row_bytes =
      static_cast<uint64_t>(first.shape[1] * store::SizeOf(first.dtype));
  const uint64_t memory_bytes = context.memory_limit_bytes() / kShareOfLimit;
  const uint64_t bytes_each =
      row_bytes + io::kPlanBytesPerRow + sizeof(int64_t) + 2 * sizeof(size_t);
  if (bytes_each > memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        first.path, ": averaging rows of ", FormatByteSize(row_bytes),
        " needs ", FormatByteSize(bytes_each),
        ", the import's memory limit leaves ", FormatByteSize(memory_bytes)));
  }
  std::vector<Matrix> opened;
  for (const store::ArrayFile* const array : matrices) {
    Matrix& matrix = opened.emplace_back();
    HEARTH_ASSIGN_OR_RETURN(
        matrix.file, store::OpenVerifiedFile(context.files(), folder, *array));
    matrix.data_offset = array->data_offset;
    matrix.layout = {0, static_cast<uint32_t>(row_bytes), array->shape[0]};
  }
  return std::make_unique<BufferedMeans>(
      context, first.dtype, static_cast<size_t>(first.shape[1]),
      static_cast<size_t>(memory_bytes / bytes_each), std::move(opened),
      std::move(take));
}

}  // namespace hearth::ingest
