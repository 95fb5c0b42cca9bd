#include "engine/job/job_profile.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/io/file_system.h"
#include "engine/job/batch_measurement.h"
#include "engine/job/kept_plan.h"
#include "engine/job/memory_ledger.h"
#include "engine/plan/plan_lease.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/saved_io.h"
#include "engine/sample/seed_order.h"
#include "engine/store/residency.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/resident_lists.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::job {
namespace {

using sample::EpochProfile;
using strategy::Pass;
using strategy::ShardPick;

// The version of how profiles are made; their file has one of its own.
constexpr char kFormat[] = "hearth profile 1";
constexpr char kFile[] = "profile";
// Batches in shuffled order, spread over an epoch, whose rows are counted.
constexpr int64_t kShuffledBatches = 256;
// Memory of resident lists: a part, and whether the list is kept.
constexpr uint64_t kListBytesPerNode = sizeof(uint16_t) + 1;

// Makes the profile of a job.
class Profiling {
 public:
  Profiling(const JobEnvironment& environment, const HistoryBasis& basis,
            Observer& observer, const std::stop_token& stop)
      : environment_(environment),
        basis_(basis),
        observer_(observer),
        stop_(stop),
        pass_(basis.passes.Training(0)) {}

  std::string PlanName() const {
    const std::string& fingerprint = basis_.dataset.manifest().fingerprint;
    Sha256 hash;
    hash.Update(absl::StrCat(
        kFormat, ";", fingerprint, ";", pass_.order->identity(), ";",
        basis_.data.data_seed, ";", pass_.epoch_key, ";", pass_.batch_size, ";",
        pass_.shards, ";", absl::StrJoin(basis_.data.fanouts, ","), ";",
        strategy::DescribeResidentLists(basis_.data.strategy)));
    // Profiles of other graphs keep the names that they had.
    if (basis_.is_typed()) {
      hash.Update(absl::StrCat(";",
                               strategy::DescribeSampler(pass_.sampler).second,
                               ";target ", basis_.dataset.target_type()));
    }
    return plan::PlanName(plan::kProfilePlans, fingerprint,
                          hash.HexDigest().substr(0, 32));
  }

  absl::Status Make(plan::PlanLease& lease) {
    HEARTH_RETURN_IF_ERROR(
        lease.MakeRoom(sample::EpochProfileBytes(basis_.num_nodes()) +
                       plan::PlanStore::kRecordBytes));
    MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(ReserveMemory(reservation));
    HEARTH_ASSIGN_OR_RETURN(topology_, basis_.dataset.LoadTopology(
                                           store::Residency::kMapped, stop_));
    HEARTH_ASSIGN_OR_RETURN(EpochProfile profile, CountSavedReads());
    HEARTH_ASSIGN_OR_RETURN(profile.shuffled_redundancy,
                            CountShuffled(profile));
    topology_.reset();
    HEARTH_RETURN_IF_ERROR(sample::WriteEpochProfile(
        environment_.files, io::JoinPath(lease.folder(), kFile), profile));
    return lease.Publish(
        {{"dataset", basis_.dataset.manifest().name},
         {"strategy", strategy::Name(basis_.data.strategy)},
         {"batch size", absl::StrCat(pass_.batch_size)},
         strategy::DescribeSampler(pass_.sampler),
         {"rows for each seed",
          absl::StrFormat("%.1f, in shuffled order %.1f", profile.redundancy(),
                          profile.shuffled_redundancy)}});
  }

 private:
  absl::Status ReserveMemory(MemoryLedger::Reservation& reservation) const {
    const std::vector<Pass> passes = {pass_};
    HEARTH_ASSIGN_OR_RETURN(
        const strategy::BatchBound batches,
        environment_.batch_measurement.Measure({.dataset = basis_.dataset,
                                                .labels = basis_.labels,
                                                .passes = passes},
                                               basis_.samplers, stop_));
    strategy::MemoryEstimate estimate;
    // Those that the samplers work on, wait, and are being counted.
    strategy::AddBatches({.manifest = basis_.dataset.manifest(),
                          .pipeline = {.samplers = basis_.samplers},
                          .batches = batches},
                         {.samplers = basis_.samplers,
                          .sampled = 2 * basis_.samplers + 4,
                          .assembled = 0},
                         estimate);
    const auto nodes = static_cast<uint64_t>(basis_.num_nodes());
    estimate.Add("profiling", sample::EpochProfileBytes(basis_.num_nodes()));
    // Lists are ranked first.
    estimate.Add("neighbor lists",
                 nodes * std::max(sample::NeighborCache::kBuildBytesPerNode +
                                      sizeof(int64_t),
                                  kListBytesPerNode));
    return environment_.memory.Reserve(estimate, reservation);
  }

  // Samples all batches of the pass.
  absl::StatusOr<EpochProfile> CountSavedReads() const {
    const std::vector<Pass> prepared = basis_.passes.OfPeriod(0);
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<strategy::ResidentLists> lists,
        strategy::FindResidentLists(basis_.data.strategy,
                                    {.files = environment_.files,
                                     .dataset = basis_.dataset,
                                     .partition = basis_.partition,
                                     .passes = prepared,
                                     .stop = stop_}));
    int64_t index_bytes = 0;
    for (const store::EdgeTypeEntry& edges :
         basis_.dataset.manifest().edge_types) {
      index_bytes = std::max(index_bytes, store::SizeOf(edges.indices.dtype));
    }
    sample::SavedIo saved({.num_nodes = basis_.num_nodes(),
                           .index_bytes = index_bytes,
                           .row_bytes = basis_.row_bytes()});
    HEARTH_RETURN_IF_ERROR(Sample(
        pass_, strategy::NumBatches(pass_.order->size(), pass_.batch_size),
        [&](const ShardPick& pick, const sample::MiniBatch& batch) {
          const int64_t number = pick.number / pass_.shards;
          saved.Add(batch, [&](store::NodeId node) {
            return lists->Has(number, node);
          });
          return absl::OkStatus();
        }));
    return std::move(saved).TakeProfile();
  }

  // Rows for each seed, if seeds are shuffled; those of `profile` if they are.
  absl::StatusOr<double> CountShuffled(const EpochProfile& profile) const {
    if (pass_.order->MacroBatches(pass_.epoch_key).empty()) {
      return profile.redundancy();
    }
    const std::unique_ptr<sample::SeedOrder> shuffled =
        sample::NewShuffledOrder(pass_.order->Epoch(pass_.epoch_key),
                                 basis_.data.data_seed);
    Pass pass = pass_;
    pass.order = shuffled.get();
    EpochProfile counted;
    HEARTH_RETURN_IF_ERROR(Sample(
        pass, kShuffledBatches,
        [&](const ShardPick& /*pick*/, const sample::MiniBatch& batch) {
          counted.num_seeds += batch.num_seeds;
          counted.num_rows += static_cast<int64_t>(batch.input_nodes.size());
          return absl::OkStatus();
        }));
    return counted.redundancy();
  }

  // Samples `most` batches of `pass`, spread over it.
  absl::Status Sample(const Pass& pass, int64_t most,
                      absl::FunctionRef<absl::Status(const ShardPick&,
                                                     const sample::MiniBatch&)>
                          take) const {
    const std::vector<Pass> passes = {pass};
    return strategy::SampleShards(
        {.clock = environment_.clock,
         .source = {.topology = *topology_, .labels = basis_.labels},
         .samplers = basis_.samplers,
         .progress =
             [this](uint64_t done, uint64_t total) {
               observer_.OnProgress({.phase = "profiling",
                                     .done = done,
                                     .total = total,
                                     .loss = {}});
             }},
        passes, strategy::SpreadOver(passes, most), take, stop_);
  }

  const JobEnvironment& environment_;
  const HistoryBasis& basis_;
  Observer& observer_;
  const std::stop_token& stop_;
  const Pass pass_;
  std::unique_ptr<store::LoadedTopology> topology_;
};

}  // namespace

absl::StatusOr<JobProfile> OpenProfile(const JobEnvironment& environment,
                                       const HistoryBasis& basis,
                                       Observer& observer,
                                       const std::stop_token& stop) {
  Profiling profiling(environment, basis, observer, stop);
  HEARTH_ASSIGN_OR_RETURN(
      KeptPlan<EpochProfile> kept,
      FindOrMakePlan<EpochProfile>(
          environment,
          {.name = profiling.PlanName(),
           .kind = "profile",
           .open =
               [&](const std::string& folder) {
                 return sample::ReadEpochProfile(environment.files,
                                                 io::JoinPath(folder, kFile),
                                                 basis.num_nodes());
               },
           .make =
               [&](plan::PlanLease& lease) { return profiling.Make(lease); }},
          observer, stop));
  return JobProfile{.plan = kept.lease.name(),
                    .profile = std::move(kept.opened)};
}

}  // namespace hearth::job
