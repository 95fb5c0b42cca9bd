#include "engine/train/history_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"

namespace hearth::train {
namespace {

using sample::LiveHistory;
using store::Tensor;

// Stands for no batch.
constexpr int64_t kNever = -1;
constexpr char kSlots[] = "slots";
constexpr char kBatches[] = "batches";
constexpr char kRows[] = "rows";
constexpr char kGradientSlots[] = "gradient_slots";
constexpr char kGradients[] = "gradients";

template <typename T>
T At(const Tensor& tensor, size_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Append(T value, Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  tensor.data.insert(tensor.data.end(), bytes, bytes + sizeof(T));
}

void AppendRow(const float* row, int64_t width, Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::byte*>(row);
  tensor.data.insert(tensor.data.end(), bytes, bytes + width * sizeof(float));
}

// Number of elements of a tensor of one dimension; -1 if it has another
// dimension or does not exist.
int64_t CountOf(const store::TensorMap& saved, const char* name) {
  const auto found = saved.find(name);
  return found == saved.end() || found->second.shape.size() != 1
             ? -1
             : found->second.shape[0];
}

absl::Status DoesNotFit() {
  return absl::DataLossError(
      "the kept embeddings do not fit the model's history");
}

absl::Status NoSlot(int32_t slot, int64_t num_slots) {
  return absl::DataLossError(
      absl::StrCat("an embedding is kept in slot ", slot, ", of ", num_slots));
}

bool Fits(const store::TensorMap& saved, const char* name, store::DType dtype,
          const std::vector<int64_t>& shape) {
  const auto found = saved.find(name);
  if (found == saved.end()) return false;
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return found->second.dtype == dtype && found->second.shape == shape &&
         std::ssize(found->second.data) == elements * store::SizeOf(dtype);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HistoryCache>> HistoryCache::Make(
    std::shared_ptr<const sample::HistoryCandidates> candidates, int64_t width,
    bool keeps_gradients) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(
          candidates->size() * RowBytes(width, keeps_gradients))));
  return std::unique_ptr<HistoryCache>(new HistoryCache(
      std::move(candidates), width, keeps_gradients, std::move(memory)));
}

HistoryCache::HistoryCache(
    std::shared_ptr<const sample::HistoryCandidates> candidates, int64_t width,
    bool keeps_gradients, io::AlignedMemory memory)
    : candidates_(std::move(candidates)),
      width_(width),
      keeps_gradients_(keeps_gradients),
      memory_(std::move(memory)),
      rows_(reinterpret_cast<float*>(memory_.bytes().data())),
      pushed_by_(static_cast<size_t>(candidates_->size()), kNever),
      has_gradient_(keeps_gradients ? pushed_by_.size() : 0) {}

float* HistoryCache::Row(int32_t slot) const { return rows_ + slot * width_; }

float* HistoryCache::Gradient(int32_t slot) const {
  return rows_ + (candidates_->size() + slot) * width_;
}

absl::Status HistoryCache::Pull(const sample::TopLayer& top,
                                float* rows) const {
  for (const int32_t position : top.pulled) {
    const int32_t slot = candidates_->SlotOf(top.nodes[position]);
    if (slot == sample::HistoryCandidates::kNone ||
        pushed_by_[slot] == kNever) {
      return absl::FailedPreconditionError(
          absl::StrCat("no embedding of node ", top.nodes[position],
                       " is kept, which the batch pulls"));
    }
    rows = std::copy_n(Row(slot), width_, rows);
  }
  return absl::OkStatus();
}

void HistoryCache::Push(const sample::TopLayer& top, int64_t batch,
                        const float* rows) {
  for (const int32_t position : top.pushed) {
    const int32_t slot = candidates_->SlotOf(top.nodes[position]);
    std::copy_n(rows, width_, Row(slot));
    pushed_by_[slot] = batch;
    rows += width_;
  }
}

void HistoryCache::AddGradients(const sample::TopLayer& top,
                                const float* gradients) {
  for (const int32_t position : top.pulled) {
    const int32_t slot = candidates_->SlotOf(top.nodes[position]);
    float* const sum = Gradient(slot);
    if (has_gradient_[slot]) {
      for (int64_t i = 0; i < width_; ++i) sum[i] += gradients[i];
    } else {
      std::copy_n(gradients, width_, sum);
      has_gradient_[slot] = true;
    }
    gradients += width_;
  }
}

void HistoryCache::TakeGradients(const sample::TopLayer& top,
                                 float* gradients) {
  for (const int32_t position : top.pushed) {
    const int32_t slot = candidates_->SlotOf(top.nodes[position]);
    if (has_gradient_[slot]) {
      std::copy_n(Gradient(slot), width_, gradients);
      has_gradient_[slot] = false;
    } else {
      std::fill_n(gradients, width_, 0.0F);
    }
    gradients += width_;
  }
}

void HistoryCache::Clear() {
  std::fill(pushed_by_.begin(), pushed_by_.end(), kNever);
}

std::vector<LiveHistory> HistoryCache::Live(int64_t next,
                                            int64_t staleness) const {
  std::vector<LiveHistory> live;
  for (size_t slot = 0; slot < pushed_by_.size(); ++slot) {
    const int64_t batch = pushed_by_[slot];
    if (batch == kNever || next - batch >= staleness) continue;
    live.push_back({.slot = static_cast<int32_t>(slot), .batch = batch});
  }
  return live;
}

store::TensorMap HistoryCache::Save(absl::Span<const LiveHistory> live) const {
  std::vector<int32_t> gradients;
  for (size_t slot = 0; slot < has_gradient_.size(); ++slot) {
    if (has_gradient_[slot]) gradients.push_back(static_cast<int32_t>(slot));
  }
  store::TensorMap saved;
  if (live.empty() && gradients.empty()) return saved;
  const auto count = static_cast<int64_t>(live.size());
  Tensor& slots = saved[kSlots];
  slots = {.dtype = store::DType::kInt32, .shape = {count}, .data = {}};
  Tensor& batches = saved[kBatches];
  batches = {.dtype = store::DType::kInt64, .shape = {count}, .data = {}};
  Tensor& rows = saved[kRows];
  rows = {
      .dtype = store::DType::kFloat32, .shape = {count, width_}, .data = {}};
  rows.data.reserve(live.size() * static_cast<size_t>(width_) * sizeof(float));
  for (const LiveHistory& history : live) {
    Append(history.slot, slots);
    Append(history.batch, batches);
    AppendRow(Row(history.slot), width_, rows);
  }
  if (gradients.empty()) return saved;
  const auto owed = static_cast<int64_t>(gradients.size());
  Tensor& gradient_slots = saved[kGradientSlots];
  gradient_slots = {.dtype = store::DType::kInt32, .shape = {owed}, .data = {}};
  Tensor& sums = saved[kGradients];
  sums = {.dtype = store::DType::kFloat32, .shape = {owed, width_}, .data = {}};
  sums.data.reserve(gradients.size() * static_cast<size_t>(width_) *
                    sizeof(float));
  for (const int32_t slot : gradients) {
    Append(slot, gradient_slots);
    AppendRow(Gradient(slot), width_, sums);
  }
  return saved;
}

absl::Status HistoryCache::Load(const store::TensorMap& saved) {
  Clear();
  has_gradient_.assign(has_gradient_.size(), false);
  const bool with_gradients = saved.count(kGradients) > 0;
  if (saved.size() != (with_gradients ? 5u : 3u) ||
      (with_gradients && !keeps_gradients_)) {
    return DoesNotFit();
  }
  HEARTH_RETURN_IF_ERROR(LoadRows(saved));
  return with_gradients ? LoadGradients(saved) : absl::OkStatus();
}

absl::Status HistoryCache::LoadRows(const store::TensorMap& saved) {
  const int64_t count = CountOf(saved, kSlots);
  if (!Fits(saved, kSlots, store::DType::kInt32, {count}) ||
      !Fits(saved, kBatches, store::DType::kInt64, {count}) ||
      !Fits(saved, kRows, store::DType::kFloat32, {count, width_})) {
    return DoesNotFit();
  }
  const std::byte* row = saved.at(kRows).data.data();
  for (int64_t i = 0; i < count; ++i) {
    const auto slot = At<int32_t>(saved.at(kSlots), static_cast<size_t>(i));
    if (slot < 0 || slot >= candidates_->size()) {
      Clear();
      return NoSlot(slot, candidates_->size());
    }
    pushed_by_[slot] = At<int64_t>(saved.at(kBatches), static_cast<size_t>(i));
    std::memcpy(Row(slot), row, width_ * sizeof(float));
    row += width_ * sizeof(float);
  }
  return absl::OkStatus();
}

absl::Status HistoryCache::LoadGradients(const store::TensorMap& saved) {
  const int64_t count = CountOf(saved, kGradientSlots);
  if (!Fits(saved, kGradientSlots, store::DType::kInt32, {count}) ||
      !Fits(saved, kGradients, store::DType::kFloat32, {count, width_})) {
    Clear();
    return DoesNotFit();
  }
  const std::byte* row = saved.at(kGradients).data.data();
  for (int64_t i = 0; i < count; ++i) {
    const auto slot =
        At<int32_t>(saved.at(kGradientSlots), static_cast<size_t>(i));
    if (slot < 0 || slot >= candidates_->size()) {
      Clear();
      has_gradient_.assign(has_gradient_.size(), false);
      return NoSlot(slot, candidates_->size());
    }
    has_gradient_[slot] = true;
    std::memcpy(Gradient(slot), row, width_ * sizeof(float));
    row += width_ * sizeof(float);
  }
  return absl::OkStatus();
}

uint64_t HistoryCache::MemoryBytes(int64_t num_candidates, int64_t width,
                                   bool keeps_gradients) {
  // Twice the rows, because a checkpoint holds a copy while it is written.
  return static_cast<uint64_t>(num_candidates) *
         (2 * static_cast<uint64_t>(RowBytes(width, keeps_gradients)) +
          4 * sizeof(int64_t));
}

}  // namespace hearth::train
