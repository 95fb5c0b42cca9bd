#include "engine/job/job_history.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/cache/direct_cache.h"
#include "engine/job/job_profile.h"
#include "engine/job/memory_ledger.h"
#include "engine/sample/cache_split.h"
#include "engine/sample/epoch_profile.h"
#include "engine/store/manifest.h"
#include "engine/store/node_space.h"
#include "engine/store/row_format.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/pass.h"
#include "engine/train/history_cache.h"

namespace hearth::job {
namespace {

using sample::EpochProfile;
using sample::HistoryCandidates;

// The staleness unless told, as in the paper (section 6.4); an epoch with fewer
// batches would never compute an embedding anew.
constexpr int64_t kMostStaleness = 100;
constexpr int64_t kBatchesForOne = 10;
// Batches that pushed an embedding, as the sampler and the trainer know them.
constexpr int64_t kStateBytes = 2 * sizeof(int64_t);

// Sizes of embeddings.
struct EmbeddingSizes {
  int64_t num_nodes = 0;
  // Numbers of an embedding.
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

// The memory that embeddings have for themselves; none if they share a cache
// with rows.
std::optional<uint64_t> OwnBytes(const DataOptions& data,
                                 const store::Manifest& manifest) {
  if (data.history->cache_bytes > 0) return data.history->cache_bytes;
  if (strategy::SharedCacheBytes(data.strategy).has_value()) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(store::NodeSpace(manifest).num_nodes() *
                               store::CommonFormat(manifest).row_bytes() / 10);
}

// Chooses a history, or goes on with one that was chosen.
class HistoryMaking {
 public:
  HistoryMaking(const JobEnvironment& environment, const HistoryBasis& basis,
                Observer& observer, const std::stop_token& stop)
      : environment_(environment),
        basis_(basis),
        options_(*basis.data.history),
        sizes_({.num_nodes = basis.num_nodes(),
                .width = basis.embedding_width,
                .keeps_gradients = !basis.data.history->stop_gradients}),
        observer_(observer),
        stop_(stop) {}

  absl::StatusOr<JobHistory> Run() {
    HEARTH_ASSIGN_OR_RETURN(std::optional<KeptHistoryChoice> kept, ReadKept());
    if (!kept.has_value()) {
      HEARTH_ASSIGN_OR_RETURN(kept, Choose());
      if (!basis_.folder.empty()) {
        HEARTH_RETURN_IF_ERROR(
            WriteHistoryChoice(environment_.files, basis_.folder, *kept));
      }
    }
    JobHistory history = {.choice = kept->choice,
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
  // Reads the choice of an earlier run of the job. A damaged file is as good as
  // none: the same budgets lead to the same choice.
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
        const JobProfile found,
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

  // The profile, its ranking, and the nodes that are chosen.
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
    // Without embeddings there is nothing to keep memory for.
    choice.bytes = split.embeddings > 0 ? split.embedding_bytes : 0;
  }

  // Leaves the strategy what the embeddings do not take of its cache.
  absl::Status TakeFromCache(JobHistory& history) const {
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

absl::Status CheckHistoryMemory(const DataOptions& data,
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

absl::StatusOr<JobHistory> MakeHistory(const JobEnvironment& environment,
                                       const HistoryBasis& basis,
                                       Observer& observer,
                                       const std::stop_token& stop) {
  return HistoryMaking(environment, basis, observer, stop).Run();
}

}  // namespace hearth::job
