#include "engine/strategy/foresight/fetch_prices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hearth::strategy {

namespace {

constexpr double kMostCorrection = 16;
constexpr double kWorthChanging = 0.8;
// Direct reads that tell something about the disk.
constexpr int64_t kTellingRows = 1000;

}  // namespace

DiskRates RatesOf(const machine::DiskProfile& disk, int threads, int depth,
                  uint64_t row_bytes) {
  return {.read = disk.BytesPerSecond(1),
          .write = disk.write_bytes_per_second,
          .pages = disk.ReadsPerSecond(threads, depth, row_bytes)};
}

void FetchPrices::SetRates(const DiskRates& rates) {
  absl::MutexLock lock(&mutex_);
  rates_ = rates;
}

double FetchPrices::Seconds(Fetching fetching, const FetchNeed& need) const {
  absl::MutexLock lock(&mutex_);
  return SecondsLocked(fetching, need);
}

double FetchPrices::SecondsLocked(Fetching fetching,
                                  const FetchNeed& need) const {
  const double bytes =
      static_cast<double>(need.rows) * static_cast<double>(need.row_bytes);
  const double factor = factors_[static_cast<size_t>(fetching)];
  if (fetching == Fetching::kPacked) {
    return factor *
           ((static_cast<double>(need.feature_bytes) + bytes) / rates_.read +
            bytes / rates_.write);
  }
  // A row that lies on a boundary takes two pages in one read.
  return factor * std::max(static_cast<double>(need.rows) / rates_.pages,
                           bytes / rates_.read);
}

bool FetchPrices::ScanIsCheaper(const FetchNeed& need) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<double>(need.feature_bytes) / rates_.read <
         SecondsLocked(Fetching::kDirect, need);
}

Fetching FetchPrices::Choose(const FetchNeed& need) {
  absl::MutexLock lock(&mutex_);
  const double packed = SecondsLocked(Fetching::kPacked, need);
  const double direct = SecondsLocked(Fetching::kDirect, need);
  const Fetching cheaper =
      packed <= direct ? Fetching::kPacked : Fetching::kDirect;
  if (!has_chosen_ ||
      std::min(packed, direct) <= kWorthChanging * std::max(packed, direct)) {
    chosen_ = cheaper;
  }
  has_chosen_ = true;
  return chosen_;
}

void FetchPrices::Correct(Fetching fetching, double predicted,
                          double measured) {
  if (predicted <= 0 || measured <= 0) return;
  absl::MutexLock lock(&mutex_);
  double& factor = factors_[static_cast<size_t>(fetching)];
  factor = std::clamp(factor * std::sqrt(measured / predicted),
                      1 / kMostCorrection, kMostCorrection);
}

void DirectReads::Begin(double now) {
  absl::MutexLock lock(&mutex_);
  if (reading_++ == 0) since_ = now;
}

void DirectReads::End(double now, int64_t rows) {
  absl::MutexLock lock(&mutex_);
  if (--reading_ == 0) seconds_ += now - since_;
  rows_ += rows;
}

void DirectReads::Correct(int64_t row_bytes, FetchPrices& prices) const {
  absl::MutexLock lock(&mutex_);
  if (rows_ < kTellingRows) return;
  const double predicted = prices.Seconds(
      Fetching::kDirect,
      {.feature_bytes = 0, .rows = rows_, .row_bytes = row_bytes});
  prices.Correct(Fetching::kDirect, predicted, seconds_);
}

}  // namespace hearth::strategy
