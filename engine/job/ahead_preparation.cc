#include "engine/job/ahead_preparation.h"

#include <functional>
#include <utility>

namespace hearth::job {

AheadPreparation::AheadPreparation(strategy::Strategy& strategy,
                                   std::vector<strategy::Pass> passes)
    : thread_([this, &strategy,
               passes = std::move(passes)](const std::stop_token& stop) {
        report_ = strategy.PrepareAhead(passes,
                                        {.log =
                                             [this](const std::string& text) {
                                               absl::MutexLock lock(&mutex_);
                                               log_.push_back(text);
                                             },
                                         .progress = nullptr},
                                        stop);
      }) {}

std::vector<std::string> AheadPreparation::TakeLog() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(log_, {});
}

absl::StatusOr<strategy::PreparationReport> AheadPreparation::Finish(
    const std::stop_token& stop) {
  const std::stop_callback forward(stop, [this] { thread_.request_stop(); });
  thread_.join();
  return std::move(report_);
}

}  // namespace hearth::job
