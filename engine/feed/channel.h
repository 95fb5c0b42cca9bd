#ifndef HEARTH_ENGINE_FEED_CHANNEL_H_
#define HEARTH_ENGINE_FEED_CHANNEL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/slot_pool.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/train/metric.h"

/// Where a feed job and its client meet (Channel): the passes that the client
/// asks for, the batches that it holds, and the way to it (Client). Knows no
/// connection and no job: both sides call it.

namespace hearth::feed {

/// Nodes that are the seeds of a pass.
enum class Split {
  kTrain,
  kValid,
  kTest,
  /// Those of each request, a batch for each, until the client closes the pass.
  kRequests
};

/// A pass that a client has asked for.
struct OpenPass {
  /// Number that the client gave it; in passes that a channel tells of, its own
  /// number, which no other pass has, whoever opened it.
  uint64_t number = 0;
  Split split = Split::kTrain;
  /// Epoch, from 0.
  int64_t epoch = 0;
  /// Number of the batch that the client gets next.
  int64_t next_batch = 0;
  BatchLayout layout = BatchLayout::kGraph;
  /// See BatchExtras.
  bool all_labels = false;
  /// Batches that it has had.
  int64_t num_batches = 0;
  /// kRequests: number of the batch after the last that it has asked for; told
  /// by Channel::demand alone.
  int64_t end_batch = 0;
};

/// Seeds of a batch that a client asks for, as it names them; an error: why the
/// pass ends in place of the batch.
using SeedRequest = absl::StatusOr<std::vector<store::NodeId>>;

/// What a client is told when its job is ready. See hearth.v1.FeedWelcome.
struct Welcome {
  struct OfSplit {
    int64_t batches = 0;
    int64_t seeds = 0;
  };
  struct NodeType {
    std::string name;
    int64_t feature_dim = 0;
    int64_t num_nodes = 0;
  };
  OfSplit train = {};
  OfSplit valid = {};
  OfSplit test = {};
  /// "classes", "multi_label", "targets"; empty = there are none.
  std::string labels = {};
  int64_t label_width = 0;
  int64_t feature_dim = 0;
  std::vector<NodeType> node_types = {};
  std::vector<std::string> edge_types = {};
  std::string target = {};
  std::string fingerprint = {};
  int credits = 0;
  /// Most seeds of a batch.
  int64_t batch_size = 0;
};

/// A batch for the client: the arrays in `rest`, and its input rows at the
/// start of `rows`.
struct OutgoingBatch {
  uint64_t pass = 0;
  int64_t number = 0;
  int64_t num_seeds = 0;
  /// See hearth.v1.FeedBatch.
  double loss_scale = 1;
  const BatchArrays& arrays;
  std::shared_ptr<Slot> rows;
  std::shared_ptr<Slot> rest;
};

/// The way to a client. Calls do not block. Thread-safe. An error of a call
/// means that the client is lost.
class Client {
 public:
  virtual ~Client() = default;
  virtual absl::Status Send(const Welcome& welcome) = 0;
  virtual absl::Status Send(const OutgoingBatch& batch) = 0;
  /// The pass has ended; an error = before its last batch.
  virtual absl::Status SendEnd(const OpenPass& pass,
                               const absl::Status& status) = 0;
  /// The job has ended.
  virtual void SendError(const absl::Status& error) = 0;
};

/// An epoch of the client's own training.
struct ReportedEpoch {
  uint32_t epoch = 0;
  double loss = 0;
  train::Metric metric = train::Metric::kAccuracy;
  std::optional<double> valid_metric = {};
};

/// Seconds and batches of a client, since it first came.
struct ClientSeconds {
  /// Seconds in which it waited for a batch, and in which it worked on one.
  double wait = 0;
  double script = 0;
  /// Batches that it copied because it kept others for long.
  int64_t copies = 0;
};

/// Slots by where they are.
struct SlotCounts {
  /// In the pools, to be lent again.
  int64_t free = 0;
  /// Being filled, or waiting to be sent.
  int64_t filled = 0;
  /// With the client.
  int64_t held = 0;
};

/// Passes over one split, and what they cost together.
struct PassSum {
  int64_t passes = 0;
  strategy::PassReport sum;
};

/// A feed job's state that its runs and its client share. It lives from the
/// first sign of either until the job has ended and the client has gone.
/// Thread-safe.
class Channel {
 public:
  /// `wake` is called, on any thread, when demand() may have changed while the
  /// job does not run; null = nobody needs to know. `clock` outlives the
  /// channel.
  explicit Channel(const Clock& clock, std::function<void()> wake = nullptr);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Seconds on the clock of all waits.
  double SteadySeconds() const { return clock_.SteadySeconds(); }

  // Calls of the client's side.

  /// A client has come. ALREADY_EXISTS while another is there;
  /// FAILED_PRECONDITION once the job has ended.
  absl::Status Connect(std::shared_ptr<Client> client)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// The client has gone, and the memory that it holds with it.
  void Disconnect(const Client& client) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Asks for a pass in place of the one that is open. While passes are refused
  /// (SetDraining), one over the training nodes or over requests ends at once
  /// with UNAVAILABLE, but for the rest of an epoch that was begun before.
  /// INVALID_ARGUMENT if its number is not greater than all of the client's
  /// before, or above kMostPasses, or a number is negative.
  absl::Status Open(const OpenPass& pass) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Asks for the next batch of an open pass over kRequests, whose seeds are
  /// `nodes`, or, if it `goes_on`, these and those of the next call. Does
  /// nothing if the pass has ended. A wrong request ends the pass in place of
  /// its batch: so does one beyond kMostRequests, or beyond the seeds of
  /// kMostRequestedBatches of Welcome::batch_size, that wait for their batches
  /// (RESOURCE_EXHAUSTED). INVALID_ARGUMENT if there was no such pass, or it
  /// has no requests; FAILED_PRECONDITION before the first welcome.
  absl::Status Request(uint64_t pass, absl::Span<const uint64_t> nodes,
                       bool goes_on) ABSL_LOCKS_EXCLUDED(mutex_);
  static constexpr size_t kMostRequests = 64;
  static constexpr int64_t kMostRequestedBatches = 16;
  /// Greatest number of a client's pass.
  static constexpr uint64_t kMostPasses = uint64_t{1} << 40;
  /// Ends the pass early. Does nothing if it is not open.
  void Close(uint64_t pass) ABSL_LOCKS_EXCLUDED(mutex_);
  /// The client does not use these slots any more. INVALID_ARGUMENT for a slot
  /// that it does not hold.
  absl::Status Release(absl::Span<const uint64_t> slots)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// The client asks for no pass soon.
  void Yield() ABSL_LOCKS_EXCLUDED(mutex_);
  /// The client needs the job no longer.
  void Bye() ABSL_LOCKS_EXCLUDED(mutex_);
  /// Counts of each no more than there can have been since the last call.
  void AddSeconds(const ClientSeconds& more) ABSL_LOCKS_EXCLUDED(mutex_);
  /// RESOURCE_EXHAUSTED beyond kMostEpochs that were not taken.
  absl::Status AddEpoch(ReportedEpoch epoch) ABSL_LOCKS_EXCLUDED(mutex_);
  static constexpr size_t kMostEpochs = 1000;

  /// Whether training passes, and requests, are refused from now on. An epoch
  /// that is open goes on to its end.
  void SetDraining(bool is_draining) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls of the job's side.

  /// What the job needs to know before it gets batches.
  enum class Demand {
    /// The client wants the batches of the pass.
    kPass,
    /// It wants none at present, and may soon.
    kNothing,
    /// It wants none for some time: memory and place are better given to
    /// others.
    kAway,
    /// It wants none any more.
    kDone,
  };
  /// `pass` is set with kPass.
  Demand demand(std::optional<OpenPass>& pass) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the function that is called, on any thread, when demand() may have
  /// changed while the job runs. A call may still run when SetNotReady returns.
  void SetOnChange(std::function<void()> on_change) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job's data are open: the client, and those that come later, are
  /// welcomed. `pools` lend the slots of the batches.
  void SetReady(const Welcome& welcome,
                std::vector<std::shared_ptr<SlotPool>> pools = {})
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// The job does not run any more, and may again. Keeps `memory`, the
  /// reservation of what the client still holds, until it holds nothing.
  void SetNotReady(std::shared_ptr<void> memory = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until the client holds fewer batches than Welcome::credits, or does
  /// not want the open pass any more, or `stop` is requested. Returns whether
  /// the pass `pass` is still wanted and the client can be given a batch;
  /// false, too, if the client is away.
  bool AwaitCredit(uint64_t pass, std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until the client has asked for batch `number` of the pass `pass`.
  /// Absent if it does not want the pass any more, or is away, if
  /// SteadySeconds() has come to `until`, or `stop` is requested. Of requests
  /// with more seeds than Welcome::batch_size one seed more is there.
  std::optional<SeedRequest> AwaitRequest(uint64_t pass, int64_t number,
                                          double until, std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives the client the next batch of its pass; does nothing if it has
  /// another pass open, or none.
  void Deliver(const OutgoingBatch& batch) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The pass that the client has open, whether or not it has credit.
  std::optional<OpenPass> open_pass() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Leaves out the next batch of the pass.
  void Skip(uint64_t pass) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The pass has no more batches, or, with an error, ends early.
  void EndPass(uint64_t pass, const absl::Status& status = absl::OkStatus())
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job has ended; OK = as its client wished.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Adds a pass, or a part of one, that has ended.
  void AddPass(Split split, const strategy::PassReport& report)
      ABSL_LOCKS_EXCLUDED(mutex_);
  PassSum passes(Split split) const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Batches that were delivered, to any client.
  int64_t num_delivered() const ABSL_LOCKS_EXCLUDED(mutex_);
  ClientSeconds seconds() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Epochs that the client has reported and that were not taken.
  std::vector<ReportedEpoch> TakeEpochs() ABSL_LOCKS_EXCLUDED(mutex_);

  bool has_client() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether a client wants batches, its first welcome, or the job's end.
  bool ClientWaits() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Seconds for which no client has been there; 0 while one is.
  double seconds_without_client() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Batches, and bytes of the slots, that the client holds.
  int64_t held_batches() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t held_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  SlotCounts slots() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Seconds after which a client that holds all of its batches, or asks for no
  /// pass, is away. A client whose steps take long has three of them.
  static constexpr double kPatienceSeconds = 10;

 private:
  struct Held {
    std::shared_ptr<Slot> slot;
    // The batch that it is of: num_delivered_ when it was delivered.
    int64_t batch = 0;
  };

  double Patience() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsAway() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetPass() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasCredit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t HeldBatches() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendWelcome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendEnd(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseClient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that the client has done something, and wakes the job.
  void NoteSign() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::function<void()> on_change_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Client> client_ ABSL_GUARDED_BY(mutex_);
  // Whether the client has been welcomed, by this run or an earlier one: it
  // cannot ask for a pass before.
  bool is_welcomed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Welcome> welcome_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<SlotPool>> pools_ ABSL_GUARDED_BY(mutex_);
  // Batches that the client may hold, by the last welcome; absent before any.
  std::optional<int> credits_ ABSL_GUARDED_BY(mutex_);
  // Most seeds of a batch, by the last welcome.
  std::optional<int64_t> batch_size_ ABSL_GUARDED_BY(mutex_);
  std::optional<OpenPass> open_ ABSL_GUARDED_BY(mutex_);
  // Requests of the open pass whose batches the client has not had, the first
  // for its next batch; and the seeds so far of one that goes on.
  std::deque<SeedRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<store::NodeId> partial_ ABSL_GUARDED_BY(mutex_);
  // Number of the last pass, of any client: passes are numbered through, so
  // that a run never takes one for another. Those of the client come after
  // `first_pass_`.
  uint64_t last_pass_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_pass_ ABSL_GUARDED_BY(mutex_) = 0;
  // Epoch of the training pass that is not at its end, wherever its client is.
  std::optional<int64_t> epoch_ ABSL_GUARDED_BY(mutex_);
  bool has_yielded_ ABSL_GUARDED_BY(mutex_) = false;
  bool said_bye_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  // Slots that the client holds, by their ids.
  std::map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  // Reservation of their memory, from a run that has ended.
  std::shared_ptr<void> held_memory_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReportedEpoch> epochs_ ABSL_GUARDED_BY(mutex_);
  std::map<Split, PassSum> passes_ ABSL_GUARDED_BY(mutex_);
  int64_t num_delivered_ ABSL_GUARDED_BY(mutex_) = 0;
  ClientSeconds seconds_ ABSL_GUARDED_BY(mutex_);
  // Time of the last AddSeconds.
  double last_seconds_ ABSL_GUARDED_BY(mutex_);
  // Time of the client's last request or release, or of the last batch that it
  // got; time of its last release, and the longest of the last times between
  // two releases.
  double last_sign_ ABSL_GUARDED_BY(mutex_);
  std::optional<double> last_release_ ABSL_GUARDED_BY(mutex_);
  double step_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  double client_gone_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::feed

#endif  // HEARTH_ENGINE_FEED_CHANNEL_H_
