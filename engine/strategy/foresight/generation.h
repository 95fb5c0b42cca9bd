#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/plan/optimal_cache.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/foresight/fetch_prices.h"
#include "engine/strategy/foresight/generation_files.h"
#include "engine/strategy/foresight/kept_source.h"
#include "engine/strategy/foresight/row_slots.h"
#include "engine/strategy/foresight/timeline.h"
#include "engine/strategy/packing/plan_key.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

/// Prepares the generations of a timeline one after the other
/// (GenerationMaker): samples passes (PassSamples), plans the cache, and packs
/// the rows that it lacks (Generation). While the disk packs one, the
/// processors sample and plan the next.

namespace hearth::strategy {

/// Everything that generations are made with. Outlives them.
struct ForesightContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  /// Rows of the features.
  io::RowLayout rows;
  io::FileSystem& files;
  const Clock& clock;
  plan::PlanStore& plans;
  /// Threads that sample, and that pack.
  int samplers = 1;
  int64_t num_slots = 0;
  /// Bytes of samples and plans on disk at a time; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// The data to sample from.
  KeptSource& source;
  FetchPrices& prices;
  /// As StrategyResources::on_scan.
  std::function<void(double bytes_per_second)> on_scan = nullptr;
  /// Whether rows may be packed. Else generations are only planned, for a
  /// forecast.
  bool packs = true;
  /// Set: generations are made while no shard is on its way to the trainer
  /// (ForesightOptions::makes_apart). Called before one is made for a shard
  /// that waits for it; frees the memory of shards.
  std::function<void()> free_shards = nullptr;
};

/// Memory of packing, at most, beside what it takes for each shard. `apart`:
/// whether generations are made apart (ForesightOptions::makes_apart).
uint64_t PackingBytes(int64_t num_nodes, int64_t row_bytes, int samplers,
                      bool apart);

/// Memory of planning one generation while another is packed, at most; apart,
/// of planning or packing.
uint64_t MakingBytes(int64_t num_nodes, int64_t num_slots, int64_t row_bytes,
                     int64_t largest_batch, int64_t num_shards, int samplers,
                     bool apart);

/// A slot of the cache is overwritten no sooner than this many batches after
/// the last one that reads it, so that layers can read it in place: more than
/// are assembled and not released (ForesightPass). Plans do not depend on
/// whether layers do.
inline constexpr int64_t kReuseBatches = 8;

/// The same in shards: the reuse distance of plans.
inline int64_t ReuseDistance(const Timeline& timeline) {
  int64_t shards = 1;
  for (const Pass& pass : timeline.passes()) {
    shards = std::max(shards, pass.shards);
  }
  return kReuseBatches * shards;
}

/// The samples of a pass, in a plan that other jobs and later runs of the pass
/// share. Thread-safe, but for `trace`, which the maker uses.
struct PassSamples {
  plan::PlanLease lease;
  std::unique_ptr<SampleSpool> spool;
  std::unique_ptr<SampleSpool> trace;
};

/// A generation that is ready to be delivered. Immutable; thread-safe.
class Generation {
 public:
  Generation(GenerationSpan span, plan::PlanLease lease,
             std::unique_ptr<GenerationReader> reader,
             std::map<size_t, std::shared_ptr<PassSamples>> samples)
      : span_(span),
        lease_(std::move(lease)),
        reader_(std::move(reader)),
        samples_(std::move(samples)) {}

  const GenerationSpan& span() const { return span_; }
  const std::string& name() const { return lease_.name(); }
  const GenerationReader& reader() const { return *reader_; }
  /// Whether the rows of refills are packed.
  bool HasRefills() const {
    return reader_->index().num_refills > 0 &&
           reader_->index().fetching == Fetching::kPacked;
  }
  /// Samples of a pass of which the generation has shards.
  SampleSpool& SamplesOf(size_t pass) const {
    return *samples_.at(pass)->spool;
  }

  /// Passes on `status`, of reading plan or samples of `pass`: DATA_LOSS marks
  /// both as damaged, so that they are made again.
  absl::Status Checked(absl::Status status, size_t pass) const;

 private:
  const GenerationSpan span_;
  const plan::PlanLease lease_;
  const std::unique_ptr<GenerationReader> reader_;
  // By index of the pass.
  const std::map<size_t, std::shared_ptr<PassSamples>> samples_;
};

/// Makes the generations of a timeline in order. Equal timelines and options
/// give equal plans, whatever the threads, as long as disk space suffices.
/// Single-owner.
class GenerationMaker {
 public:
  /// `context` and `timeline` outlive the maker.
  GenerationMaker(const ForesightContext& context, const Timeline& timeline);
  GenerationMaker(const GenerationMaker&) = delete;
  GenerationMaker& operator=(const GenerationMaker&) = delete;
  ~GenerationMaker();

  struct Made {
    std::shared_ptr<const Generation> generation;
    PreparationReport report;
  };

  /// What passes want while a generation is made.
  struct Demand {
    /// No earlier position comes any more: samples that only those need are let
    /// go of.
    int64_t position = 0;
    /// Whether passes wait for generations, so that the next one is wanted as
    /// soon as this one is made. It is then planned ahead, else only sampled.
    bool is_awaited = false;
  };

  /// Finds or makes the next generation. `fill`, unless null, has only free
  /// slots; if rows are packed, it then also gets the rows that the cache holds
  /// at the beginning. Without disk space generations become smaller, and then
  /// rows are read directly. RESOURCE_EXHAUSTED without space for samples or
  /// without memory; CANCELLED; errors of reading and writing. REQUIRES:
  /// the generations made so far do not end the timeline.
  absl::StatusOr<Made> MakeNext(const Demand& demand, RowSlots* fill,
                                const PreparationListener& listener,
                                const std::stop_token& stop);

  /// Goes on with the generations that an earlier run of the timeline made:
  /// MakeNext will find the one with `position`, or make it behind the one
  /// before it. Where neither is on disk as it would be made now, it is absent,
  /// and the maker is as before; otherwise returns where the next generation
  /// begins. Errors of reading; CANCELLED. REQUIRES: no generation was made;
  /// 0 <= position < size of the timeline.
  absl::StatusOr<std::optional<int64_t>> ContinueAt(
      int64_t position, const std::stop_token& stop);

  /// Ends sampling and planning ahead, and frees what they hold.
  void DropAhead();

 private:
  using SamplesByPass = std::map<size_t, std::shared_ptr<PassSamples>>;

  struct Attempt;
  struct Planned;
  struct Ahead;

  absl::StatusOr<Planned> TakeAhead(Attempt& attempt);
  void BeginAhead(Planned& planned, bool plan);
  absl::StatusOr<Planned> PlanNext(const GenerationSpan& span,
                                   Attempt& attempt);
  absl::StatusOr<Made> Make(Planned planned, bool may_pack, RowSlots* fill,
                            Attempt& attempt);
  absl::Status TakeSamples(const GenerationSpan& span, SamplesByPass& samples,
                           Attempt& attempt) const;
  absl::StatusOr<std::shared_ptr<PassSamples>> SamplesOfPass(
      size_t pass, Attempt& attempt) const;
  absl::Status Sample(const Pass& pass, const std::string& path,
                      plan::PlanLease& lease, Attempt& attempt) const;
  absl::StatusOr<Planned> Plan(const GenerationSpan& span,
                               const SamplesByPass& samples,
                               const std::string& before,
                               plan::CacheSlots slots, Attempt& attempt) const;
  PlanKey KeyOf(const GenerationSpan& span, const std::string& before,
                absl::FunctionRef<std::string(size_t pass)> samples_name) const;
  std::string SamplesName(size_t pass) const;
  absl::StatusOr<std::optional<Planned>> FindWhole(
      const GenerationSpan& span, const PlanKey& key,
      const std::stop_token& stop) const;
  absl::Status TakeFirstNodes(Planned& planned) const;
  absl::StatusOr<std::unique_ptr<GenerationReader>> Find(
      const plan::PlanLease& lease, uint64_t plan_id) const;
  plan::OptimalCache::Options CacheOptions(const std::string& folder) const;
  absl::Status PlanSlots(const SamplesByPass& samples, Planned& planned,
                         Attempt& attempt) const;
  absl::Status Refill(Planned& planned, ShardPlanWriter& writer) const;
  absl::Status Pack(Planned& planned, bool may_pack, RowSlots* fill,
                    Attempt& attempt);
  absl::Status Scan(Planned& planned, const GenerationReader& reader,
                    RowSlots* fill, Attempt& attempt);
  void Discard(plan::PlanLease lease) const;
  void DropSamples(const absl::Status& damage);
  uint64_t SampleBytes() const;

  const ForesightContext& context_;
  const Timeline& timeline_;
  int64_t end_ = 0;
  // The generation before the next one, and the slots behind it, if they are
  // known.
  std::shared_ptr<const Generation> last_;
  plan::CacheSlots slots_;
  // [slots] the node in each slot at the beginning of passes that come again;
  // empty where they do not.
  std::vector<uint32_t> cycle_nodes_;
  SamplesByPass samples_;
  // The work on the generation that comes after the one that is packed, or was
  // made last; null: there is none.
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_GENERATION_H_
