#include "client/cli/transfer_progress.h"

#include "absl/time/clock.h"

namespace hearth::cli {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(200);

std::unique_ptr<ProgressDisplay> NewDisplay(Session& session) {
  Environment& environment = session.environment;
  if (environment.err_is_terminal) {
    return NewLiveProgress(environment.err, ProgressUnit::kBytes,
                           environment.columns);
  }
  if (session.output == Output::kJson) return NewNoProgress();
  return NewPlainProgress(environment.err);
}

}  // namespace

TransferProgress::TransferProgress(Session& session)
    : display_(NewDisplay(session)) {}

void TransferProgress::Show(const std::string& phase, uint64_t done,
                            uint64_t total) {
  const absl::Time now = absl::Now();
  if (phase == phase_ && now - shown_ < kInterval) return;
  phase_ = phase;
  shown_ = now;
  v1::JobEvent event;
  event.mutable_time()->set_seconds(absl::ToUnixSeconds(now));
  event.mutable_time()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(
      now - absl::FromUnixSeconds(absl::ToUnixSeconds(now)))));
  event.mutable_progress()->set_phase(phase);
  event.mutable_progress()->set_done(done);
  event.mutable_progress()->set_total(total);
  display_->Show(event);
}

}  // namespace hearth::cli
