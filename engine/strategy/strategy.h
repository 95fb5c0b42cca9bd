#ifndef HEARTH_ENGINE_STRATEGY_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/machine/disk_profile.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"
#include "engine/train/train_step.h"

/// The interface of all strategies (Strategy), the resources that the daemon
/// lends them, and the lists that they have in memory (ResidentLists).

namespace hearth::strategy {

/// A GPU cache that lies in host memory and whose work the CPU does: the
/// reference that tests compare a GPU with.
struct EmulatedGpu {};

/// Where strategies keep the rows of a GPU cache; std::monostate: there is no
/// GPU.
using Gpu = std::variant<std::monostate, EmulatedGpu, cuda::Device>;

/// Resources that strategies share with the daemon; all outlive them.
struct StrategyResources {
  io::ReadQueues& read_queues;
  const Clock& clock;
  /// Folder for files that are removed with the strategy; it may not exist yet.
  std::string scratch_folder;
  /// The store of plans that outlive jobs. Null: plans are among the scratch
  /// files.
  plan::PlanStore* plans = nullptr;
  /// Plan stores, one for each data disk (a disk over which features can be
  /// striped); empty: there are no data disks.
  absl::Span<plan::PlanStore* const> data_disks = {};
  /// The file system of scratch files and plans.
  io::FileSystem& files = io::FileSystem::Posix();
  Gpu gpu = {};
  /// All GPUs, in the numbering of PipelineOptions::sampling_gpu.
  absl::Span<const cuda::Device> gpus = {};
  /// Checks feature rows that are read one by one (strategies with
  /// StrategyKind::reads_single_rows); null = rows are not checked.
  std::shared_ptr<const io::RowCheck> row_check = nullptr;
  /// The partition by which seeds of training passes are ordered; null: they
  /// are ordered without one.
  std::shared_ptr<const plan::Partition> partition = nullptr;
  /// The profile of the disk with the features; waits while it is measured.
  /// Null: strategies assume a common disk.
  std::function<absl::StatusOr<machine::DiskProfile>(std::stop_token stop)>
      disk_profile = nullptr;
  /// Hears, on any thread, at how many bytes per second features were scanned.
  /// May be null.
  std::function<void(double bytes_per_second)> on_scan = nullptr;
  /// Ends the making of the strategy, which is then CANCELLED. Not looked at
  /// later.
  std::stop_token stop = {};
};

/// Callbacks that hear how a preparation goes, called on its thread. Each may
/// be empty.
struct PreparationListener {
  /// A line for people: what was found or chosen, and why.
  std::function<void(const std::string& text)> log;
  /// Units done, and in all, of a phase: "sampling", ...
  std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>
      progress;
  /// A part of the plan is durable: another preparation of the same plan finds
  /// it.
  std::function<void()> durable;
};

/// Delivers batches: samples them and assembles their feature rows. Made for
/// one job; keeps caches warm between passes. Single-owner.
class Strategy {
 public:
  /// Takes each batch in order, as its Pass::shards shards in order, on the
  /// thread that called Run; the views are valid during the call. A strategy
  /// that does not deliver in order (DeliversInOrder) gives as many shards at a
  /// time, of any batches, and each shard once.
  using Consumer =
      std::function<absl::Status(absl::Span<const train::BatchView> shards)>;

  virtual ~Strategy() = default;

  /// Tells the strategy which passes will follow, so that it can prepare for
  /// them. May take long. The passes of the call before are over. CANCELLED
  /// when `stop` was requested. What the passes refer to outlives the next
  /// call, or Rest.
  virtual absl::StatusOr<PreparationReport> Prepare(
      const PassSequence& /*sequence*/, const PreparationListener& /*listener*/,
      std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Makes, while other passes run, the plan that Prepare for this sequence
  /// will find. With StrategyKind::prepares_throughout: makes the next part of
  /// the plan for the sequence of the last Prepare; waits until there is use
  /// for it; called again while PreparationReport::more. Called on a thread of
  /// its own, between two calls of Prepare, once at a time. Errors as Prepare.
  virtual absl::StatusOr<PreparationReport> PrepareAhead(
      const PassSequence& /*sequence*/, const PreparationListener& /*listener*/,
      std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Delivers all batches of `pass`. Returns the first error of the consumer or
  /// of a stage; CANCELLED when `stop` was requested; FAILED_PRECONDITION for a
  /// pass that Prepare had to be told of and was not. `report` covers the pass
  /// as far as it went, also after an error; each call of the consumer finds in
  /// it the pass so far, the delivered batch included.
  virtual absl::Status Run(const Pass& pass, const Consumer& consumer,
                           std::stop_token stop, PassReport& report) = 0;

  /// Tells the strategy that no pass comes for a while: it releases all memory
  /// but the shares with MemoryShare::kept.
  virtual void Rest() = 0;
};

/// The neighbor lists that a strategy has in memory while it samples a pass:
/// drawing from them reads nothing. Immutable.
class ResidentLists {
 public:
  virtual ~ResidentLists() = default;

  /// Whether the list of `node` is in memory while batch `batch` is sampled.
  virtual bool Has(int64_t batch, store::NodeId node) const = 0;
};

/// The pass for which resident lists are looked up. All of it outlives the
/// call.
struct ResidentListsRequest {
  io::FileSystem& files;
  const store::Dataset& dataset;
  /// As StrategyResources::partition.
  std::shared_ptr<const plan::Partition> partition;
  /// As for Strategy::Prepare. Lists are looked up for the first one.
  absl::Span<const Pass> passes;
  std::stop_token stop;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_STRATEGY_H_
