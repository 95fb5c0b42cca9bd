#include "engine/job/data/history.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/memory/batch_measurement.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/epoch_profile.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/seed_order.h"
#include "engine/sample/slab_sampler.h"
#include "engine/sample/slab_topology.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/history_cache.h"

namespace hearth::job {

namespace {

using sample::EpochProfile;
using sample::HistoryCandidates;
using strategy::Pass;
using strategy::ShardPick;

// Version of how profiles are made; the file has a version of its own.
constexpr char kFormat[] = "hearth profile 1";
constexpr char kFile[] = "profile";
// Number of batches in shuffled order, spread over an epoch, whose rows are
// counted.
constexpr int64_t kShuffledBatches = 256;
// Memory of resident lists: two bytes for the part of a node, one for whether
// its list is kept.
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
    // Names of profiles of untyped graphs must not change.
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
    scratch_folder_ = io::JoinPath(lease.folder(), "slabs");
    if (!in_slabs()) {
      HEARTH_ASSIGN_OR_RETURN(topology_, basis_.dataset.LoadTopology(
                                             store::Residency::kMapped, stop_));
    }
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
  bool in_slabs() const {
    return basis_.topology == strategy::TopologyPlace::kSlabs;
  }

  strategy::OfflineSource Source() const {
    if (in_slabs()) {
      return strategy::SlabSource{.dataset = basis_.dataset,
                                  .files = environment_.files,
                                  .scratch_folder = scratch_folder_};
    }
    return strategy::SampleSource{.topology = *topology_,
                                  .labels = basis_.labels};
  }

  absl::Status ReserveMemory(MemoryLedger::Reservation& reservation) const {
    const std::vector<Pass> passes = {pass_};
    HEARTH_ASSIGN_OR_RETURN(
        const strategy::BatchBound batches,
        environment_.batch_measurement.Measure(
            {.dataset = basis_.dataset,
             .labels = basis_.labels,
             .passes = passes},
            {.samplers = basis_.samplers, .topology = basis_.topology}, stop_));
    strategy::MemoryEstimate estimate;
    // Batches that samplers work on, that wait, and that are being counted.
    strategy::AddBatches({.manifest = basis_.dataset.manifest(),
                          .pipeline = {.samplers = basis_.samplers},
                          .batches = batches},
                         {.samplers = basis_.samplers,
                          .sampled = 2 * basis_.samplers + 4,
                          .assembled = 0},
                         estimate);
    if (in_slabs()) {
      const store::Manifest& manifest = basis_.dataset.manifest();
      estimate.Add(
          "topology",
          sample::SlabSamplingBytes(
              {.manifest = manifest,
               .slab_bytes = sample::SlabTopology::SlabBytes(manifest),
               .samplers = basis_.samplers,
               .num_shards = strategy::NumBatches(pass_) * pass_.shards,
               .shard = batches.WithMargin()}));
    }
    const auto nodes = static_cast<uint64_t>(basis_.num_nodes());
    estimate.Add("profiling", sample::EpochProfileBytes(basis_.num_nodes()));
    // Lists are ranked before they are loaded.
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
    sample::EpochProfiler profiler({.num_nodes = basis_.num_nodes(),
                                    .index_bytes = index_bytes,
                                    .row_bytes = basis_.row_bytes()});
    HEARTH_RETURN_IF_ERROR(Sample(
        pass_, strategy::NumBatches(pass_.order->size(), pass_.batch_size),
        [&](const ShardPick& pick, const sample::MiniBatch& batch) {
          const int64_t number = pick.number / pass_.shards;
          profiler.Add(batch, [&](store::NodeId node) {
            return lists->Has(number, node);
          });
          return absl::OkStatus();
        }));
    return std::move(profiler).TakeProfile();
  }

  // Rows per seed in shuffled order; the redundancy of `profile` if its seeds
  // are shuffled.
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

  // Samples `most` batches of `pass`, spread evenly over it.
  absl::Status Sample(const Pass& pass, int64_t most,
                      absl::FunctionRef<absl::Status(const ShardPick&,
                                                     const sample::MiniBatch&)>
                          take) const {
    const std::vector<Pass> passes = {pass};
    return strategy::SampleShards(
        {.clock = environment_.clock,
         .source = Source(),
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
  // Null in slabs.
  std::unique_ptr<store::LoadedTopology> topology_;
  std::string scratch_folder_;
};

// The profile of a job's training, and the plan that keeps it.
struct OpenedProfile {
  std::string plan;
  sample::EpochProfile profile;
};

// Finds the profile of the first training pass in the plan store, or samples
// all of its batches without a history and keeps it there (OUTRE's profiling
// epoch, section 4.4), and some in shuffled order to compare with. It depends
// on the dataset, the batches and the neighbor lists that the strategy keeps in
// memory, not on models. The caller reserves sample::EpochProfileBytes for the
// result; sampling reserves its own memory. Errors of
// BatchMeasurement::Measure, MemoryLedger::Reserve,
// strategy::FindResidentLists, sampling and FindOrMakePlan.
absl::StatusOr<OpenedProfile> OpenProfile(const JobEnvironment& environment,
                                          const HistoryBasis& basis,
                                          Observer& observer,
                                          const std::stop_token& stop) {
  Profiling profiling(environment, basis, observer, stop);
  HEARTH_ASSIGN_OR_RETURN(
      LeasedPlan<EpochProfile> leased,
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
  return OpenedProfile{.plan = leased.lease.name(),
                       .profile = std::move(leased.opened)};
}

// Default staleness: a tenth of an epoch's batches, at most 100, as in the
// paper (section 6.4). With fewer batches in an epoch than its staleness, no
// embedding would be computed again.
constexpr int64_t kMostStaleness = 100;
constexpr int64_t kBatchesForOne = 10;
// Number of the batch that pushed an embedding, kept by the sampler and by the
// trainer.
constexpr int64_t kStateBytes = 2 * sizeof(int64_t);

// Memory of embeddings, in bytes.
struct EmbeddingSizes {
  int64_t num_nodes = 0;
  // Numbers in an embedding.
  int64_t width = 0;
  bool keeps_gradients = true;

  uint64_t TableBytes() const {
    return HistoryCandidates::MemoryBytes(num_nodes);
  }

  int64_t EmbeddingBytes() const {
    return train::HistoryCache::RowBytes(width, keeps_gradients) + kStateBytes;
  }

  int64_t Within(uint64_t bytes) const {
    if (bytes < TableBytes()) return 0;
    return std::min(num_nodes, static_cast<int64_t>(bytes - TableBytes()) /
                                   EmbeddingBytes());
  }
};

// Memory that embeddings have for themselves; nullopt if they share a cache
// with rows.
std::optional<uint64_t> OwnBytes(const BatchOptions& data,
                                 const store::Manifest& manifest) {
  if (data.history->cache_bytes > 0) return data.history->cache_bytes;
  if (strategy::SharedCacheBytes(data.strategy).has_value()) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(store::NodeSpace(manifest).num_nodes() *
                               store::CommonFormat(manifest).row_bytes() / 10);
}

// Chooses a history, or reads the choice of an earlier run.
class HistorySelection {
 public:
  HistorySelection(const JobEnvironment& environment, const HistoryBasis& basis,
                   Observer& observer, const std::stop_token& stop)
      : environment_(environment),
        basis_(basis),
        options_(*basis.data.history),
        sizes_({.num_nodes = basis.num_nodes(),
                .width = basis.embedding_width,
                .keeps_gradients = !basis.data.history->stop_gradients}),
        observer_(observer),
        stop_(stop) {}

  absl::StatusOr<ChosenHistory> Run() {
    HEARTH_ASSIGN_OR_RETURN(std::optional<KeptHistoryChoice> kept, ReadKept());
    if (!kept.has_value()) {
      HEARTH_ASSIGN_OR_RETURN(kept, Choose());
      if (!basis_.folder.empty()) {
        HEARTH_RETURN_IF_ERROR(
            WriteHistoryChoice(environment_.files, basis_.folder, *kept));
      }
    }
    ChosenHistory history = {.choice = kept->choice,
                             .policy = nullptr,
                             .strategy = basis_.data.strategy};
    HEARTH_RETURN_IF_ERROR(TakeFromCache(history));
    if (!kept->nodes.empty()) {
      auto policy = std::make_shared<sample::HistoryPolicy>();
      policy->candidates =
          std::make_shared<HistoryCandidates>(kept->nodes, basis_.num_nodes());
      policy->staleness = kept->choice.staleness;
      history.policy = std::move(policy);
    }
    Log(kept->choice);
    return history;
  }

 private:
  // Reads the choice of an earlier run of the job. A damaged file is treated as
  // absent: the same budgets lead to the same choice.
  absl::StatusOr<std::optional<KeptHistoryChoice>> ReadKept() const {
    if (basis_.folder.empty()) return std::nullopt;
    absl::StatusOr<KeptHistoryChoice> kept =
        ReadHistoryChoice(environment_.files, basis_.folder);
    if (kept.ok()) return *std::move(kept);
    if (absl::IsNotFound(kept.status())) return std::nullopt;
    if (!absl::IsDataLoss(kept.status())) return kept.status();
    observer_.OnLog(
        Severity::kWarning,
        absl::StrCat(kept.status().message(), "; the history is chosen again"));
    return std::nullopt;
  }

  absl::StatusOr<KeptHistoryChoice> Choose() const {
    HEARTH_RETURN_IF_ERROR(CheckHistoryMemory(
        basis_.data, basis_.dataset.manifest(), basis_.embedding_width));
    MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(ReserveMemory(reservation));
    HEARTH_ASSIGN_OR_RETURN(
        const OpenedProfile found,
        OpenProfile(environment_, basis_, observer_, stop_));
    const EpochProfile& profile = found.profile;
    KeptHistoryChoice kept;
    HistoryChoice& choice = kept.choice;
    choice.profile = found.plan;
    choice.redundancy = profile.redundancy();
    choice.shuffled_redundancy = profile.shuffled_redundancy;
    choice.sample_weight = options_.sample_weight.value_or(profile.beta());
    choice.staleness = Staleness();
    ChooseSize(profile, choice);
    kept.nodes = profile.BestHistories(choice.embeddings, choice.sample_weight);
    return kept;
  }

  // Reserves memory for the profile, its ranking and the chosen nodes.
  absl::Status ReserveMemory(MemoryLedger::Reservation& reservation) const {
    const auto nodes = static_cast<uint64_t>(basis_.num_nodes());
    strategy::MemoryEstimate estimate;
    estimate.Add("profile", sample::EpochProfileBytes(basis_.num_nodes()) +
                                2 * sizeof(store::NodeId) * nodes);
    return environment_.memory.Reserve(estimate, reservation);
  }

  int64_t Staleness() const {
    if (options_.staleness > 0) return options_.staleness;
    const int64_t batches =
        strategy::NumBatches(basis_.passes.num_train(), basis_.data.batch_size);
    return std::clamp<int64_t>(batches / kBatchesForOne, 1, kMostStaleness);
  }

  void ChooseSize(const EpochProfile& profile, HistoryChoice& choice) const {
    const std::optional<uint64_t> own =
        OwnBytes(basis_.data, basis_.dataset.manifest());
    if (own.has_value()) {
      choice.bytes = *own;
      choice.embeddings = sizes_.Within(*own);
    } else {
      SplitCache(profile, *strategy::SharedCacheBytes(basis_.data.strategy),
                 choice);
    }
  }

  void SplitCache(const EpochProfile& profile, uint64_t bytes,
                  HistoryChoice& choice) const {
    const sample::CacheSplit split = sample::SplitCache(
        profile, choice.sample_weight,
        {.bytes = bytes,
         .rows_within =
             [this](uint64_t of_rows) {
               return cache::DirectCache::Capacity(of_rows, basis_.num_nodes(),
                                                   basis_.row_bytes());
             },
         .embeddings_within =
             [this](uint64_t of_embeddings) {
               return sizes_.Within(of_embeddings);
             }},
        options_.share);
    choice.share = split.share;
    choice.embeddings = split.embeddings;
    // Without embeddings no memory is kept for them.
    choice.bytes = split.embeddings > 0 ? split.embedding_bytes : 0;
  }

  // Reduces the strategy's cache by the memory of the embeddings.
  absl::Status TakeFromCache(ChosenHistory& history) const {
    const HistoryChoice& choice = history.choice;
    if (!choice.share.has_value()) return absl::OkStatus();
    const uint64_t bytes = *strategy::SharedCacheBytes(history.strategy);
    if (bytes < choice.bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "budgets.cpu_cache_bytes: ", FormatByteSize(bytes),
          " are less than what embeddings of earlier batches take of them, ",
          FormatByteSize(choice.bytes),
          ", which was decided when the job began"));
    }
    history.strategy = strategy::WithSharedCache(std::move(history.strategy),
                                                 bytes - choice.bytes);
    return absl::OkStatus();
  }

  void Log(const HistoryChoice& choice) const {
    if (choice.embeddings == 0) {
      observer_.OnLog(Severity::kInfo,
                      "history: rows are worth all of the memory; every "
                      "embedding is computed");
      return;
    }
    observer_.OnLog(
        Severity::kInfo,
        absl::StrFormat(
            "history: embeddings of %d nodes are kept, each for %d "
            "batches, in %s%s; a drawn neighbor weighs as much as "
            "%.3f rows",
            choice.embeddings, choice.staleness, FormatByteSize(choice.bytes),
            choice.share.has_value()
                ? absl::StrFormat(", %.0f%% of the cache", 100 * *choice.share)
                : "",
            choice.sample_weight));
  }

  const JobEnvironment& environment_;
  const HistoryBasis& basis_;
  const HistoryOptions& options_;
  const EmbeddingSizes sizes_;
  Observer& observer_;
  const std::stop_token& stop_;
};

}  // namespace

absl::Status CheckHistoryMemory(const BatchOptions& data,
                                const store::Manifest& manifest,
                                int64_t embedding_width) {
  const EmbeddingSizes sizes = {
      .num_nodes = store::NodeSpace(manifest).num_nodes(),
      .width = embedding_width,
      .keeps_gradients = !data.history->stop_gradients};
  const std::optional<uint64_t> own = OwnBytes(data, manifest);
  if (!own.has_value() || sizes.Within(*own) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "history.cache_bytes: ", FormatByteSize(*own),
      " hold no embedding: finding them takes ",
      FormatByteSize(sizes.TableBytes()), " for ", sizes.num_nodes,
      " nodes, and each of them ", sizes.EmbeddingBytes(), " bytes"));
}

absl::StatusOr<ChosenHistory> ChooseHistory(const JobEnvironment& environment,
                                            const HistoryBasis& basis,
                                            Observer& observer,
                                            const std::stop_token& stop) {
  return HistorySelection(environment, basis, observer, stop).Run();
}

}  // namespace hearth::job
