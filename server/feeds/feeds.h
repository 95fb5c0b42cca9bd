#ifndef HEARTH_SERVER_FEEDS_FEEDS_H_
#define HEARTH_SERVER_FEEDS_FEEDS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/feed/channel.h"
#include "engine/metrics/registry.h"
#include "server/feeds/feed_metrics.h"

namespace hearth::server {

class JobStore;

/// The channels of feed jobs (engine/feed/channel.h), and the tickets by which
/// clients get to them. A channel is there from the first time that it is asked
/// for until its job has ended and its client has gone. Jobs are looked after
/// by a thread of its own, since the store may take long to answer.
/// Thread-safe.
class Feeds {
 public:
  struct Options {
    /// Time for which a feed job may be without a client before it is
    /// cancelled.
    absl::Duration patience = absl::Minutes(10);
    /// Cancels a job. Called by the thread, until it succeeds.
    std::function<absl::Status(const std::string& id)> cancel = nullptr;
    /// Called by the thread when a client wants batches of a job that does not
    /// run.
    std::function<void()> wake = nullptr;
    /// Has the time series of feeds; outlives this. Null = none.
    metrics::Registry* registry = nullptr;
  };
  /// Time for which a ticket is good.
  static constexpr absl::Duration kTicketLife = absl::Seconds(30);
  /// Tickets of a user that are good at the same time.
  static constexpr size_t kMostTickets = 64;

  /// `store` and `clock` outlive this.
  Feeds(JobStore& store, const Clock& clock, Options options);
  /// Calls Stop.
  ~Feeds();
  Feeds(const Feeds&) = delete;
  Feeds& operator=(const Feeds&) = delete;

  using Channels = std::vector<std::shared_ptr<feed::Channel>>;

  /// Who a ticket is for, and by which way: a user of the socket, or, by their
  /// name, a caller of Feeds.Stream.
  using Holder = std::variant<uid_t, std::string>;

  /// The channels of a feed job, one for each of its trainers.
  Channels ChannelsOf(const std::string& id, uint32_t trainers)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes a ticket for one connection of `holder` to the channel of a job's
  /// trainer `rank`. NOT_FOUND for an unknown job; FAILED_PRECONDITION if it is
  /// no feed or has ended; INVALID_ARGUMENT if there is no such rank;
  /// ALREADY_EXISTS while a client is connected; RESOURCE_EXHAUSTED while the
  /// user has kMostTickets.
  absl::StatusOr<std::string> NewTicket(const std::string& id, uint32_t rank,
                                        Holder holder)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The channel that a ticket is for; the ticket is void from now on.
  /// PERMISSION_DENIED if it is unknown, was used, is too old or another
  /// holder's.
  absl::StatusOr<std::shared_ptr<feed::Channel>> Redeem(
      const std::string& ticket, const Holder& holder)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether clients are refused further training passes
  /// (feed::Channel::SetDraining).
  void SetDraining(bool is_draining) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether all clients of a job wait for it to run.
  bool ClientWaits(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Begins to look after jobs: tells clients whose jobs have ended, and
  /// cancels jobs that have been without a client for too long. Call once, when
  /// all that the options call is there.
  void Start();
  /// Ends that. May be called again.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  /// The channels of a feed job that has some; empty = it has none.
  Channels Find(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// What the thread does, four times a second.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveUp(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Ticket {
    std::string job;
    uint32_t rank = 0;
    Holder holder;
    double expires = 0;
  };

  JobStore& store_;
  const Clock& clock_;
  const Options options_;
  // Used by Sweep alone.
  const std::unique_ptr<FeedMetrics> metrics_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Channels> channels_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Ticket> tickets_ ABSL_GUARDED_BY(mutex_);
  // Jobs with a channel that were cancelled, since no client has come.
  std::set<std::string> given_up_ ABSL_GUARDED_BY(mutex_);
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether a client wants batches of a job that does not run.
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::CondVar changed_;
  // Last member: the thread ends before what it uses.
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEEDS_H_
