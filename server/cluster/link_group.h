#ifndef HEARTH_SERVER_CLUSTER_LINK_GROUP_H_
#define HEARTH_SERVER_CLUSTER_LINK_GROUP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "engine/train/rank_group.h"
#include "server/cluster/frames.h"
#include "server/cluster/outcome.h"
#include "server/front/sockets.h"

/// A group of ranks on machines that are connected to each other (LinkGroup).

namespace hearth::server {

/// A connection to another rank.
struct Link {
  /// The name of its machine, for messages.
  std::string member;
  /// Non-blocking.
  io::Descriptor socket;
  /// The bytes of `socket`, with or without encryption.
  std::unique_ptr<Wire> wire;
};

/// Ranks that are connected pairwise. Agree goes to rank 0 and back. Sum cuts
/// the values into a part for each rank, which gets it from all others, adds it
/// up in the order of the ranks, and sends the sums to all: each rank sends and
/// receives 2 (N - 1) / N of the values' bytes.
class LinkGroup final : public train::RankGroup {
 public:
  struct Options {
    int rank = 0;
    /// Longest time within Sum, for which all ranks are ready, without a byte
    /// of a rank.
    absl::Duration silence = absl::Seconds(5);
    /// Called once all ranks have agreed to leave after the batch at hand, on
    /// the thread of that call; null = nobody needs to know.
    std::function<void()> on_leave = nullptr;
  };

  /// What was exchanged with a rank, or with all, so far.
  struct Traffic {
    uint64_t bytes_sent = 0;
    uint64_t bytes_received = 0;
    /// Seconds of calls; those of a rank are of calls in which it was the last.
    double wait_seconds = 0;
  };

  /// `links`: by rank; null for the own one. INVALID_ARGUMENT unless each other
  /// rank has one. `clock` outlives the group.
  static absl::StatusOr<std::unique_ptr<LinkGroup>> Make(
      const Options& options, std::vector<std::unique_ptr<Link>> links,
      const Clock& clock);
  LinkGroup(const LinkGroup&) = delete;
  LinkGroup& operator=(const LinkGroup&) = delete;
  ~LinkGroup() override;

  int rank() const override { return options_.rank; }
  int size() const override { return static_cast<int>(links_.size()); }

  /// As train::RankGroup. Errors of links name the rank and its machine:
  /// UNAVAILABLE of the cause WaitCause::kPeer if a connection has ended, or
  /// after a silence in Sum, DATA_LOSS and ABORTED as Inbox::Advance. After an
  /// error that is not of a batch the group has ended.
  absl::StatusOr<std::vector<train::BatchResult>> Agree(
      const train::StepPosition& position,
      const absl::StatusOr<train::BatchResult>& own) override;
  absl::Status Sum(absl::Span<float> values) override;
  void End(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);

  /// Asks all ranks to leave after the batch that they agree on next: an
  /// Options::on_leave is then called everywhere. Thread-safe.
  void AskToLeave() { asks_to_leave_ = true; }

  /// Whether the ranks have agreed on a batch. Thread-safe.
  bool has_agreed() const { return has_agreed_; }

  /// The error that has ended the group; OK if none has. Thread-safe.
  absl::Status ended() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// By rank. Thread-safe.
  std::vector<Traffic> traffic_by_rank() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The sum. Thread-safe.
  Traffic traffic() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A message to each rank, and one of each.
  struct Mail {
    std::vector<Outbox> out;
    std::vector<Inbox> in;
  };

  LinkGroup(const Options& options, std::vector<std::unique_ptr<Link>> links,
            io::Descriptor wake, const Clock& clock);

  Mail NewMail() const {
    return {std::vector<Outbox>(links_.size()),
            std::vector<Inbox>(links_.size())};
  }
  // Whether a rank may be done with the call, and go, before the others are.
  enum class Others { kStay, kMayGo };
  absl::Status Exchange(Mail& mail, absl::Duration silence, Others others);
  absl::StatusOr<bool> Move(size_t rank, Outbox& out, Inbox& in)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::vector<train::BatchResult>> Follow(Decision decision);
  absl::StatusOr<bool> Poll(const Mail& mail, absl::Duration timeout,
                            Others others) const;
  absl::Status SumParts(absl::Span<float> values);
  absl::Status EndWith(absl::Status status);
  std::string NameOf(size_t rank) const;

  const Options options_;
  const Clock& clock_;
  const std::vector<std::unique_ptr<Link>> links_;
  // An eventfd that is readable once the group has ended.
  const io::Descriptor wake_;
  // Numbers messages.
  uint64_t call_ = 0;
  uint32_t sums_crc_ = 0;
  // Values of the own part, of each rank but this one.
  std::vector<std::vector<float>> parts_;
  mutable absl::Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  // By rank.
  std::vector<Traffic> traffic_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> asks_to_leave_ = false;
  std::atomic<bool> has_agreed_ = false;
  bool has_left_ = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_LINK_GROUP_H_
