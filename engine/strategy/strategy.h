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
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

/// A GPU cache that lies in host memory, and whose work the CPU does: what
/// tests compare a GPU with.
struct EmulatedGpu {};

/// Where strategies keep the rows of a GPU cache; nowhere without a GPU.
using Gpu = std::variant<std::monostate, EmulatedGpu, cuda::Device>;

/// Resources that strategies share with the daemon; all outlive them.
struct StrategyResources {
  io::ReadQueues& read_queues;
  const Clock& clock;
  /// Folder for files that go with the strategy; it may not be there yet.
  std::string scratch_folder;
  /// The store of plans, which outlive jobs. Null: plans are among the scratch
  /// files.
  plan::PlanStore* plans = nullptr;
  /// The stores of plans on disks of their own, over which features can be
  /// striped; none: there are no such disks.
  absl::Span<plan::PlanStore* const> data_disks = {};
  /// The file system of those files.
  io::FileSystem& files = io::FileSystem::Posix();
  Gpu gpu = {};
  /// All GPUs: PipelineOptions::sampling_gpu counts from the first.
  absl::Span<const cuda::Device> gpus = {};
  /// Checks each feature row that is read for a batch by itself (strategies
  /// whose Kind::reads_single_rows says so); null = they are not checked.
  std::shared_ptr<const io::RowCheck> row_check = nullptr;
  /// The parts that order the seeds of training passes; null where nothing
  /// does.
  std::shared_ptr<const plan::Partition> partition = nullptr;
  /// Ends the making of the strategy, which then is CANCELLED; nothing after.
  std::stop_token stop = {};
};

/// Hears how a preparation goes, on its thread. Any may be empty.
struct PreparationListener {
  /// In words for people: what was found, chosen and why.
  std::function<void(const std::string& text)> log;
  /// Units done and in all of a phase: "sampling", ...
  std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>
      progress;
  /// A part is durable, which another preparation of the same finds.
  std::function<void()> durable;
};

/// Delivers batches: samples them and brings their feature rows together. Made
/// for one job; holds what it keeps warm between passes. Single-owner.
class Strategy {
 public:
  /// Takes each batch in order, as its shards (Pass::shards of them, in order),
  /// on the thread that called Run; the views are valid during the call. A
  /// strategy that does not deliver in order (DeliversInOrder) gives as many
  /// shards at a time, each of them once, of whichever batches.
  using Consumer =
      std::function<absl::Status(absl::Span<const train::BatchView> shards)>;

  virtual ~Strategy() = default;

  /// Tells the strategy, before the first of some passes, which they will be
  /// (each epoch key of training once, validation, test; `first_batch` 0), so
  /// that a strategy can prepare for them, which may take long; those of the
  /// call before are over. CANCELLED when `stop` was requested.
  virtual absl::StatusOr<PreparationReport> Prepare(
      absl::Span<const Pass> /*passes*/,
      const PreparationListener& /*listener*/, std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Makes what Prepare for these passes will find, while others run. Called on
  /// a thread of its own, between two calls of Prepare, once at a time. Errors
  /// as those of Prepare.
  virtual absl::StatusOr<PreparationReport> PrepareAhead(
      absl::Span<const Pass> /*passes*/,
      const PreparationListener& /*listener*/, std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Delivers all batches of `pass`. Returns the consumer's or the first
  /// stage's error; CANCELLED when `stop` was requested; FAILED_PRECONDITION
  /// for a pass that a strategy had to prepare for and did not. `report` is
  /// set, as far as the pass went, in any case; each call of the consumer finds
  /// in it the pass so far, its batch included.
  virtual absl::Status Run(const Pass& pass, const Consumer& consumer,
                           std::stop_token stop, PassReport& report) = 0;

  /// Tells the strategy that no pass comes for a while: it gives back the
  /// memory that is not worth keeping (see MemoryShare::kept).
  virtual void Rest() = 0;
};

/// The neighbor lists that a strategy has in memory while it samples a pass, so
/// that drawing from them reads nothing. Immutable.
class ResidentLists {
 public:
  virtual ~ResidentLists() = default;

  /// Whether that of `node` is there while batch `batch` is sampled.
  virtual bool Has(int64_t batch, store::NodeId node) const = 0;
};

/// The pass for which resident lists are looked up; all of it outlives the
/// call.
struct ResidentListsRequest {
  io::FileSystem& files;
  const store::Dataset& dataset;
  /// As StrategyResources::partition.
  std::shared_ptr<const plan::Partition> partition;
  /// As for Strategy::Prepare. The first is the one in question.
  absl::Span<const Pass> passes;
  std::stop_token stop;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_STRATEGY_H_
