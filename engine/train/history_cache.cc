#include "engine/train/history_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/store/dtype.h"

namespace hearth::train {
namespace {

using sample::LiveHistory;
using store::Tensor;

// No batch.
constexpr int64_t kNever = -1;
constexpr char kSlots[] = "slots";
constexpr char kBatches[] = "batches";
constexpr char kRows[] = "rows";

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
    std::shared_ptr<const sample::HistoryCandidates> candidates,
    int64_t width) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(
                              static_cast<uint64_t>(candidates->size()) *
                              static_cast<uint64_t>(width) * sizeof(float)));
  return std::unique_ptr<HistoryCache>(
      new HistoryCache(std::move(candidates), width, std::move(memory)));
}

HistoryCache::HistoryCache(
    std::shared_ptr<const sample::HistoryCandidates> candidates, int64_t width,
    io::AlignedMemory memory)
    : candidates_(std::move(candidates)),
      width_(width),
      memory_(std::move(memory)),
      rows_(reinterpret_cast<float*>(memory_.bytes().data())),
      pushed_by_(static_cast<size_t>(candidates_->size()), kNever) {}

float* HistoryCache::Row(int32_t slot) const { return rows_ + slot * width_; }

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
  const auto count = static_cast<int64_t>(live.size());
  store::TensorMap saved;
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
    const auto* row = reinterpret_cast<const std::byte*>(Row(history.slot));
    rows.data.insert(rows.data.end(), row, row + width_ * sizeof(float));
  }
  return saved;
}

absl::Status HistoryCache::Load(const store::TensorMap& saved) {
  Clear();
  const auto slots = saved.find(kSlots);
  const int64_t count = slots == saved.end() || slots->second.shape.empty()
                            ? -1
                            : slots->second.shape[0];
  if (saved.size() != 3 ||
      !Fits(saved, kSlots, store::DType::kInt32, {count}) ||
      !Fits(saved, kBatches, store::DType::kInt64, {count}) ||
      !Fits(saved, kRows, store::DType::kFloat32, {count, width_})) {
    return absl::DataLossError(
        "the kept embeddings do not fit the model's history");
  }
  const std::byte* row = saved.at(kRows).data.data();
  for (int64_t i = 0; i < count; ++i) {
    const auto slot = At<int32_t>(slots->second, static_cast<size_t>(i));
    if (slot < 0 || slot >= candidates_->size()) {
      Clear();
      return absl::DataLossError(absl::StrCat(
          "an embedding is kept in slot ", slot, ", of ", candidates_->size()));
    }
    pushed_by_[slot] = At<int64_t>(saved.at(kBatches), static_cast<size_t>(i));
    std::memcpy(Row(slot), row, width_ * sizeof(float));
    row += width_ * sizeof(float);
  }
  return absl::OkStatus();
}

uint64_t HistoryCache::MemoryBytes(int64_t num_candidates, int64_t width) {
  // Twice the rows: a checkpoint holds a copy while it is written.
  return static_cast<uint64_t>(num_candidates) *
         (2 * static_cast<uint64_t>(width) * sizeof(float) +
          3 * sizeof(int64_t));
}

}  // namespace hearth::train
