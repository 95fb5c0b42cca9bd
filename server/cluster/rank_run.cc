#include "server/cluster/rank_run.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

}  // namespace

RankResult RunRank(
    Cluster& cluster, const v1::RankSpec& spec,
    const std::vector<std::string>& addresses, const std::stop_token& stop,
    absl::FunctionRef<absl::Status(const LinkGroup::Traffic&)> look,
    const TrainOnLinks& train) {
  std::stop_source attempt;
  std::atomic<bool> has_left = false;
  auto connected = cluster.ConnectRanks(spec, addresses, [&] {
    has_left = true;
    attempt.request_stop();
  });
  if (!connected.ok()) {
    return {.report = connected.status(), .was_ended = true};
  }
  LinkGroup& group = **connected;
  const Clock& clock = cluster.clock();
  // Counts what was exchanged since the last call.
  std::vector<LinkGroup::Traffic> counted(addresses.size());
  const auto count = [&] {
    const std::vector<LinkGroup::Traffic> now = group.traffic_by_rank();
    for (size_t rank = 0; rank < now.size(); ++rank) {
      if (rank == spec.rank()) continue;
      cluster.traffic_metrics().Add(
          spec.ranks(static_cast<int>(rank)),
          {.bytes_sent = now[rank].bytes_sent - counted[rank].bytes_sent,
           .bytes_received =
               now[rank].bytes_received - counted[rank].bytes_received,
           .wait_seconds =
               now[rank].wait_seconds - counted[rank].wait_seconds});
    }
    counted = now;
  };
  absl::Notification is_over;
  std::thread watch([&] {
    std::optional<double> asked;
    while (!is_over.WaitForNotificationWithTimeout(kLookEvery)) {
      count();
      absl::Status status = look(group.traffic());
      if (status.ok() && stop.stop_requested() && !has_left) {
        if (!asked.has_value()) {
          asked = clock.SteadySeconds();
          group.AskToLeave();
        }
        if (!group.has_agreed() ||
            clock.SteadySeconds() - *asked >
                absl::ToDoubleSeconds(cluster.times().leave)) {
          status = absl::CancelledError("stopped");
        }
      }
      if (status.ok()) continue;
      group.End(status);
      attempt.request_stop();
    }
  });
  RankResult result = {.report = absl::UnknownError("")};
  // An exception would find the watch running.
  if (absl::Status status = CatchExceptions([&] {
        result.report = train(group, {spec.ranks().begin(), spec.ranks().end()},
                              attempt.get_token());
        return result.report.status();
      });
      !status.ok()) {
    result.report = std::move(status);
  }
  is_over.Notify();
  watch.join();
  count();
  result.has_left = has_left;
  const absl::Status ended = group.ended();
  if (result.report.ok()) {
    const LinkGroup::Traffic traffic = group.traffic();
    result.report->set_bytes_sent(traffic.bytes_sent);
    result.report->set_bytes_received(traffic.bytes_received);
    result.report->set_wait_seconds(traffic.wait_seconds);
  } else if (!ended.ok() && (result.report.status() == ended ||
                             absl::IsCancelled(result.report.status()))) {
    result.was_ended = true;
    result.report = ended;
  }
  return result;
}

}  // namespace hearth::server
