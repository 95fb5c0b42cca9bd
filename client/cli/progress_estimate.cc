#include "client/cli/progress_estimate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"

namespace hearth::cli {
namespace {

constexpr double kRateMemorySeconds = 10;

// Epochs without the job's history, which come before those of the job.
bool IsComparing(const v1::Progress& progress) {
  return absl::StartsWith(progress.phase(), "comparing");
}

// Phases of an epoch go on with the estimate of the whole training; any other
// phase stands alone.
bool ContinuesEstimate(const v1::Progress& before, const v1::Progress& now) {
  return (now.epochs() > 0 && before.epochs() == now.epochs() &&
          IsComparing(before) == IsComparing(now)) ||
         before.phase() == now.phase();
}

}  // namespace

void ProgressEstimate::Add(const v1::Progress& progress, double time) {
  const bool same_pass = progress.phase() == now_.phase() &&
                         progress.epoch() == now_.epoch() &&
                         progress.done() >= now_.done();
  const double elapsed = time - time_;
  if (!same_pass) {
    rate_.reset();
  } else if (elapsed > 0) {
    const double latest =
        static_cast<double>(progress.done() - now_.done()) / elapsed;
    const double keep = std::exp(-elapsed / kRateMemorySeconds);
    rate_ = rate_ ? keep * *rate_ + (1 - keep) * latest : latest;
  }
  if (!ContinuesEstimate(now_, progress)) start_fraction_.reset();
  now_ = progress;
  time_ = time;
  // A job that went on from a checkpoint may be behind where it was.
  const std::optional<double> whole = WholeFraction();
  if (whole && (!start_fraction_ || *whole < *start_fraction_)) {
    start_fraction_ = whole;
    start_time_ = time;
  }
}

std::optional<double> ProgressEstimate::fraction() const {
  if (now_.total() == 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(now_.done()) /
                           static_cast<double>(now_.total()));
}

std::optional<double> ProgressEstimate::WholeFraction() const {
  const std::optional<double> phase = fraction();
  if (now_.epochs() == 0 || now_.epoch() == 0) return phase;
  // Only the training pass moves the whole; validation stands at its end.
  if (now_.phase() != "training" && now_.phase() != "comparing") {
    return 1.0 * now_.epoch() / now_.epochs();
  }
  if (!phase) return std::nullopt;
  return (now_.epoch() - 1 + *phase) / now_.epochs();
}

std::optional<double> ProgressEstimate::remaining_seconds() const {
  const std::optional<double> whole = WholeFraction();
  if (!whole || !start_fraction_ || *whole <= *start_fraction_) {
    return std::nullopt;
  }
  return (time_ - start_time_) / (*whole - *start_fraction_) * (1 - *whole);
}

}  // namespace hearth::cli
