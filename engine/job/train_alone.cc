#include "engine/job/train_alone.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::job {
namespace {

// Brings the one rider on board.
class OneRider final : public RunHost {
 public:
  explicit OneRider(Rider& rider) : rider_(rider) {}

  std::vector<Rider*> Board(std::optional<int64_t> /*next_epoch*/) override {
    if (std::exchange(has_boarded_, true)) return {};
    return {&rider_};
  }

  std::vector<absl::Status> ForAll(
      absl::Span<Rider* const> riders,
      absl::FunctionRef<absl::Status(Rider&)> call) override {
    std::vector<absl::Status> results;
    for (Rider* rider : riders) results.push_back(call(*rider));
    return results;
  }

  int max_steps() const override { return 1; }

  void Report(absl::Span<EndedEpoch> epochs) override {
    for (EndedEpoch& epoch : epochs) {
      epoch.status = epoch.rider.observer.OnEpoch(epoch.report);
    }
  }

  Rider* PickLaggard(double /*pass_seconds*/) override { return nullptr; }

  void OnShared(int64_t /*bytes*/) override {}

  void Leave(Rider& /*rider*/, absl::StatusOr<TrainReport> result) override {
    result_ = std::move(result);
  }

  absl::StatusOr<TrainReport> result() && { return std::move(result_); }

 private:
  Rider& rider_;
  bool has_boarded_ = false;
  absl::StatusOr<TrainReport> result_ = absl::InternalError("still on board");
};

}  // namespace

absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       DataRun& data, Rider rider) {
  OneRider host(rider);
  const absl::Status status = TrainRun({.data = data,
                                        .memory = environment.memory,
                                        .clock = environment.clock,
                                        .host = host})
                                  .Run();
  absl::StatusOr<TrainReport> result = std::move(host).result();
  // An error of the data is the rider's result, too.
  if (result.ok()) HEARTH_RETURN_IF_ERROR(status);
  return result;
}

}  // namespace hearth::job
