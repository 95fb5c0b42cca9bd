#include "engine/job/job_history.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/job/batch_measurement.h"
#include "engine/job/memory_ledger.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/saved_io.h"
#include "engine/store/dtype.h"
#include "engine/store/manifest.h"
#include "engine/store/residency.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::job {
namespace {

using sample::HistoryCandidates;
using sample::HistoryPolicy;
using strategy::Pass;
using strategy::ShardPick;

// The staleness unless told, as in the paper (section 6.4); an epoch with fewer
// batches would never compute an embedding anew.
constexpr int64_t kMostStaleness = 100;
constexpr int64_t kBatchesForOne = 10;
// Batches that pushed an embedding, as the sampler and the trainer know them.
constexpr int64_t kStateBytes = 2 * sizeof(int64_t);

const store::NodeTypeEntry& NodesOf(const HistoryBasis& basis) {
  return basis.dataset.manifest().node_types[0];
}

int64_t RowBytes(const HistoryBasis& basis) {
  const store::ArrayFile& features = NodesOf(basis).features;
  return features.shape[1] * store::SizeOf(features.dtype);
}

// Embeddings for which there is memory.
absl::StatusOr<int64_t> CountEmbeddings(const HistoryBasis& basis) {
  const int64_t nodes = NodesOf(basis).num_nodes;
  const uint64_t given = basis.data.history->cache_bytes;
  const auto bytes = static_cast<int64_t>(
      given > 0 ? given : static_cast<uint64_t>(nodes * RowBytes(basis) / 10));
  const auto table =
      static_cast<int64_t>(HistoryCandidates::MemoryBytes(nodes));
  const int64_t each =
      basis.embedding_width * static_cast<int64_t>(sizeof(float)) + kStateBytes;
  if (bytes < table + each) {
    return absl::InvalidArgumentError(absl::StrCat(
        "history.cache_bytes: ", FormatByteSize(static_cast<uint64_t>(bytes)),
        " hold no embedding: finding them takes ",
        FormatByteSize(static_cast<uint64_t>(table)), " for ", nodes,
        " nodes, and each of them ", each, " bytes"));
  }
  return std::min(nodes, (bytes - table) / each);
}

// Samples all batches of the first training pass.
absl::StatusOr<sample::SavedIo> Profile(const JobEnvironment& environment,
                                        const HistoryBasis& basis,
                                        Observer& observer,
                                        std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      basis.dataset.LoadTopology(store::Residency::kMapped, stop));
  const bool on_disk =
      strategy::KindOf(basis.data.strategy).leaves_neighbors_on_disk;
  const store::EdgeTypeEntry& edges = basis.dataset.manifest().edge_types[0];
  sample::SavedIo saved(
      {.num_nodes = NodesOf(basis).num_nodes,
       .index_bytes = store::SizeOf(edges.indices.dtype),
       .row_bytes = RowBytes(basis),
       .list_is_cached = [on_disk](store::NodeId) { return !on_disk; }});
  const std::vector<Pass> passes = {basis.passes.Training(0)};
  const std::vector<ShardPick> all =
      strategy::SpreadOver(passes, strategy::TotalBatches(passes));
  HEARTH_RETURN_IF_ERROR(strategy::SampleShards(
      {.clock = environment.clock,
       .source = {.topology = *topology, .labels = basis.labels},
       .samplers = basis.samplers,
       .progress =
           [&](uint64_t done, uint64_t total) {
             observer.OnProgress({.phase = "profiling",
                                  .done = done,
                                  .total = total,
                                  .loss = {}});
           }},
      passes, all,
      [&](const ShardPick& /*pick*/, const sample::MiniBatch& batch) {
        saved.Add(batch);
        return absl::OkStatus();
      },
      std::move(stop)));
  return saved;
}

absl::StatusOr<strategy::MemoryEstimate> ProfileMemory(
    const JobEnvironment& environment, const HistoryBasis& basis,
    const std::stop_token& stop) {
  const std::vector<Pass> passes = {basis.passes.Training(0)};
  HEARTH_ASSIGN_OR_RETURN(
      const strategy::BatchBound batches,
      environment.batch_measurement.Measure(
          {.dataset = basis.dataset, .labels = basis.labels, .passes = passes},
          basis.samplers, stop));
  strategy::MemoryEstimate estimate;
  // Those that the samplers work on, wait, and are being counted.
  strategy::AddBatches({.manifest = basis.dataset.manifest(),
                        .pipeline = {.samplers = basis.samplers},
                        .batches = batches},
                       {.samplers = basis.samplers,
                        .sampled = 2 * basis.samplers + 4,
                        .assembled = 0},
                       estimate);
  estimate.Add("profiling",
               sample::SavedIo::MemoryBytes(NodesOf(basis).num_nodes));
  return estimate;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const HistoryPolicy>> MakeHistory(
    const JobEnvironment& environment, const HistoryBasis& basis,
    Observer& observer, std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t embeddings, CountEmbeddings(basis));
  HEARTH_ASSIGN_OR_RETURN(const strategy::MemoryEstimate memory,
                          ProfileMemory(environment, basis, stop));
  MemoryLedger::Reservation reservation;
  HEARTH_RETURN_IF_ERROR(environment.memory.Reserve(memory, reservation));
  HEARTH_ASSIGN_OR_RETURN(
      const sample::SavedIo saved,
      Profile(environment, basis, observer, std::move(stop)));
  auto policy = std::make_shared<HistoryPolicy>();
  policy->candidates = std::make_shared<HistoryCandidates>(
      saved.BestHistories(embeddings), NodesOf(basis).num_nodes);
  const int64_t batches =
      strategy::NumBatches(basis.passes.num_train(), basis.data.batch_size);
  policy->staleness =
      basis.data.history->staleness > 0
          ? basis.data.history->staleness
          : std::clamp<int64_t>(batches / kBatchesForOne, 1, kMostStaleness);
  observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("history: embeddings of %d nodes are kept, each for %d "
                      "batches; a drawn neighbor weighs as much as %.3f rows",
                      embeddings, policy->staleness, saved.beta()));
  return policy;
}

}  // namespace hearth::job
