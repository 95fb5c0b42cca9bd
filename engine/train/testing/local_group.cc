#include "engine/train/testing/local_group.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

namespace hearth::train {

namespace {

// What a rank brings to a call.
struct Offer {
  StepPosition position = {};
  // Of the values that Sum gave last.
  uint32_t sums_crc = 0;
  std::optional<absl::StatusOr<BatchResult>> result = std::nullopt;
  absl::Span<float> values = {};
};

// Where the ranks meet.
class Meeting {
 public:
  explicit Meeting(int size) : offers_(static_cast<size_t>(size)) {}

  // Waits until all ranks have brought an offer, then calls `use` with all of
  // them by one rank after the other, and returns when all ranks have.
  absl::Status Meet(int rank, Offer offer,
                    absl::FunctionRef<void(absl::Span<const Offer>)> use)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    offers_[static_cast<size_t>(rank)] = std::move(offer);
    HEARTH_RETURN_IF_ERROR(WaitForAll());
    use(offers_);
    return WaitForAll();
  }

  void End(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_.Update(why);
    changed_.SignalAll();
  }

 private:
  absl::Status WaitForAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t round = round_;
    if (++here_ == std::ssize(offers_)) {
      here_ = 0;
      ++round_;
      changed_.SignalAll();
    }
    while (round_ == round && ended_.ok()) changed_.Wait(&mutex_);
    return round_ == round ? ended_ : absl::OkStatus();
  }

  absl::Mutex mutex_;
  absl::CondVar changed_;
  int64_t here_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  std::vector<Offer> offers_ ABSL_GUARDED_BY(mutex_);
};

class LocalGroup final : public RankGroup {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank, int size)
      : meeting_(std::move(meeting)), rank_(rank), size_(size) {}
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;
  ~LocalGroup() override {
    meeting_->End(
        absl::UnavailableError(absl::StrCat("rank ", rank_, " left")));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::StatusOr<std::vector<BatchResult>> Agree(
      const StepPosition& position,
      const absl::StatusOr<BatchResult>& own) override {
    absl::StatusOr<std::vector<BatchResult>> agreed;
    HEARTH_RETURN_IF_ERROR(meeting_->Meet(
        rank_, {.position = position, .sums_crc = sums_crc_, .result = own},
        [&](absl::Span<const Offer> offers) { agreed = AgreeOn(offers); }));
    return agreed;
  }

  absl::Status Sum(absl::Span<float> values) override {
    std::vector<float> sums(values.size());
    HEARTH_RETURN_IF_ERROR(meeting_->Meet(
        rank_, {.values = values}, [&](absl::Span<const Offer> offers) {
          for (size_t i = 0; i < sums.size(); ++i) {
            sums[i] = offers.front().values[i];
            for (const Offer& offer : offers.subspan(1)) {
              sums[i] += offer.values[i];
            }
          }
        }));
    std::copy(sums.begin(), sums.end(), values.begin());
    sums_crc_ = Crc32c({reinterpret_cast<const std::byte*>(sums.data()),
                        sums.size() * sizeof(float)});
    return absl::OkStatus();
  }

  void End(const absl::Status& why) override { meeting_->End(why); }

 private:
  static absl::StatusOr<std::vector<BatchResult>> AgreeOn(
      absl::Span<const Offer> offers) {
    std::vector<BatchResult> results;
    for (const Offer& offer : offers) {
      HEARTH_RETURN_IF_ERROR(offer.result->status());
      results.push_back(**offer.result);
    }
    for (const Offer& offer : offers) {
      if (offer.sums_crc != offers.front().sums_crc) {
        return absl::AbortedError("replicas differ");
      }
      if (offer.position.epoch != offers.front().position.epoch ||
          offer.position.batch != offers.front().position.batch) {
        return absl::AbortedError("ranks are at different batches");
      }
    }
    return results;
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const int size_;
  uint32_t sums_crc_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<RankGroup>> NewLocalGroup(int size) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<RankGroup>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<LocalGroup>(meeting, rank, size));
  }
  return ranks;
}

}  // namespace hearth::train
