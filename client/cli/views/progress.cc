#include "client/cli/views/progress.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/views/text.h"
#include "client/hearth_client.h"
#include "engine/base/byte_size.h"

namespace hearth::cli {

namespace {

constexpr double kRateMemorySeconds = 10;

// Whether an epoch is one without history, to compare with; such epochs come
// before the job's own.
bool IsComparing(const v1::Progress& progress) {
  return absl::StartsWith(progress.phase(), "comparing");
}

// Whether the estimate goes on: through the phases of all epochs, or within a
// phase outside training.
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
  // A job that is resumed from a checkpoint repeats some progress.
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
  // In validation the epoch counts as done.
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

namespace {

constexpr int kMaxBar = 30;
constexpr int kMinBar = 5;
constexpr int kMinColumns = 20;
constexpr char kEraseLine[] = "\r\x1b[K";

// The lasting line of an event, on a terminal and elsewhere; nullopt for events
// that only change the live line.
std::optional<std::string> LastingLine(const v1::JobEvent& event) {
  if (event.has_epoch()) return EpochLine(event.epoch());
  if (event.has_log() && event.log().severity() >= v1::LogLine::WARNING) {
    return LogText(event.log());
  }
  if (event.has_state() && event.state().state() == v1::WAITING) {
    return StateText(event.state());
  }
  return std::nullopt;
}

std::string Bar(double fraction, int width) {
  const int done = static_cast<int>(fraction * width);
  return absl::StrCat("[", std::string(done, '='), done < width ? ">" : "",
                      std::string(std::max(0, width - done - 1), ' '), "]");
}

std::string RateText(double rate, ProgressUnit unit) {
  if (unit == ProgressUnit::kBytes) {
    return absl::StrCat(FormatByteSize(static_cast<uint64_t>(rate)), "/s");
  }
  return absl::StrFormat("%.1f batches/s", rate);
}

class LiveProgress : public ProgressDisplay {
 public:
  LiveProgress(std::ostream& out, ProgressUnit unit,
               std::function<int()> columns)
      : out_(out), unit_(unit), columns_(std::move(columns)) {}

  ~LiveProgress() override { Clear(); }

  void Show(const v1::JobEvent& event) override {
    if (const std::optional<std::string> line = LastingLine(event)) {
      Clear();
      out_ << *line << "\n";
    }
    if (event.has_state()) line_ = StateWord(event.state().state());
    if (event.has_progress()) {
      estimate_.Add(event.progress(), Seconds(event.time()));
      line_ = ProgressLine(event.progress());
    }
    if (event.has_state() && client::HasEnded(event.state().state())) {
      Clear();
      return;
    }
    out_ << kEraseLine << line_ << std::flush;
    shown_ = true;
  }

  void Clear() override {
    if (shown_) out_ << kEraseLine << std::flush;
    shown_ = false;
  }

 private:
  std::string ProgressLine(const v1::Progress& progress) const {
    std::string head = EscapeControl(progress.phase());
    if (progress.epochs() > 0) {
      absl::StrAppend(&head, "  epoch ", progress.epoch(), "/",
                      progress.epochs());
    }
    std::string tail;
    const std::optional<double> fraction = estimate_.fraction();
    if (fraction) absl::StrAppendFormat(&tail, "%3.0f%%", 100 * *fraction);
    if (estimate_.rate()) {
      absl::StrAppend(&tail, "  ",
                      RateText(*estimate_.rate(), UnitOf(progress)));
    }
    if (progress.has_loss()) {
      absl::StrAppend(&tail, "  loss ", FormatLoss(progress.loss()));
    }
    if (const auto seconds = estimate_.remaining_seconds()) {
      absl::StrAppend(&tail, "  ETA ", FormatDuration(*seconds));
    }
    return Fitted(head, fraction, tail);
  }

  // Packing counts bytes, also in jobs that count batches.
  ProgressUnit UnitOf(const v1::Progress& progress) const {
    return absl::StartsWith(progress.phase(), "packing") ? ProgressUnit::kBytes
                                                         : unit_;
  }

  // Head, bar and tail within the width: the bar is shortened first, then the
  // end of the line.
  std::string Fitted(const std::string& head, std::optional<double> fraction,
                     const std::string& tail) const {
    // The last column stays free: some terminals wrap when it is written.
    const int width = std::max(kMinColumns, columns_()) - 1;
    const int used = static_cast<int>(head.size() + tail.size());
    const int bar = std::min(kMaxBar, width - used - 6);
    std::string line = head;
    if (fraction && bar >= kMinBar) {
      absl::StrAppend(&line, "  ", Bar(*fraction, bar));
    }
    absl::StrAppend(&line, "  ", tail);
    return line.substr(0, width);
  }

  std::ostream& out_;
  const ProgressUnit unit_;
  const std::function<int()> columns_;
  ProgressEstimate estimate_;
  std::string line_;
  bool shown_ = false;
};

class PlainProgress : public ProgressDisplay {
 public:
  explicit PlainProgress(std::ostream& out) : out_(out) {}

  void Show(const v1::JobEvent& event) override {
    if (const std::optional<std::string> line = LastingLine(event)) {
      out_ << *line << std::endl;
    }
    if (event.has_state() && event.state().state() != v1::WAITING) {
      out_ << StateWord(event.state().state()) << std::endl;
    }
    // Phases of epochs have no lines; the epochs have.
    if (event.has_progress() && event.progress().epochs() == 0 &&
        event.progress().phase() != phase_) {
      phase_ = event.progress().phase();
      out_ << EscapeControl(phase_) << std::endl;
    }
  }

  void Clear() override {}

 private:
  std::ostream& out_;
  std::string phase_;
};

class NoProgress : public ProgressDisplay {
 public:
  void Show(const v1::JobEvent& event) override {}
  void Clear() override {}
};

}  // namespace

std::unique_ptr<ProgressDisplay> NewLiveProgress(std::ostream& out,
                                                 ProgressUnit unit,
                                                 std::function<int()> columns) {
  return std::make_unique<LiveProgress>(out, unit, std::move(columns));
}

std::unique_ptr<ProgressDisplay> NewPlainProgress(std::ostream& out) {
  return std::make_unique<PlainProgress>(out);
}

std::unique_ptr<ProgressDisplay> NewNoProgress() {
  return std::make_unique<NoProgress>();
}

}  // namespace hearth::cli
