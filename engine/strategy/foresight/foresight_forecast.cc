#include "engine/strategy/foresight/foresight_forecast.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/cache/row_memory.h"
#include "engine/plan/optimal_cache.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/foresight/fetch_prices.h"
#include "engine/strategy/foresight/generation.h"
#include "engine/strategy/foresight/generation_files.h"
#include "engine/strategy/foresight/kept_source.h"
#include "engine/strategy/foresight/timeline.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

// The first generations of a timeline.
struct Beginning {
  // Their end.
  int64_t end = 0;
  // Batches that are sampled to plan them: of their passes and the look-ahead.
  int64_t batches = 0;
};

// As many generations as take at most `most_batches` batches.
Beginning BeginningWithin(const Timeline& timeline, int64_t most_batches) {
  std::set<size_t> sampled;
  Beginning beginning;
  while (beginning.end < timeline.size()) {
    const GenerationSpan span =
        timeline.GenerationAt(beginning.end, timeline.size());
    int64_t batches = beginning.batches;
    for (int64_t at = span.plan_begin; at < span.look_end;) {
      const Timeline::Place place = timeline.At(at);
      const Pass& pass = timeline.passes()[place.pass];
      if (sampled.insert(place.pass).second) batches += NumBatches(pass);
      at += ShardsOf(pass, pass.order->size()).count - place.shard;
    }
    if (batches > most_batches) break;
    beginning = {.end = span.end, .batches = batches};
  }
  return beginning;
}

// Rows, bytes and reads of a training pass, or of several.
struct Reads {
  uint64_t needed = 0;
  // Found on the GPU.
  uint64_t on_gpu = 0;
  uint64_t missed = 0;
  uint64_t bytes = 0;
  uint64_t reads = 0;

  void Add(const Reads& other) {
    needed += other.needed;
    on_gpu += other.on_gpu;
    missed += other.missed;
    bytes += other.bytes;
    reads += other.reads;
  }
};

// Adds up the reads of whole training passes, of each when it comes first.
class Counting {
 public:
  // The first `gpu_slots` slots are on a GPU; absent: there is no GPU cache.
  Counting(const Timeline& timeline, FetchPrices& prices,
           const io::RowLayout& rows, std::optional<int64_t> gpu_slots)
      : timeline_(timeline),
        prices_(prices),
        rows_(rows),
        gpu_slots_(gpu_slots) {}

  absl::Status Add(const Generation& generation) {
    const GenerationIndex& index = generation.reader().index();
    GenerationIndex packed = index;
    packed.fetching = Fetching::kPacked;
    is_packed_ = IsPacked(index) && is_packed_;
    disk_bytes_ = std::max(disk_bytes_, packed.DiskBytes());
    const std::vector<FileRange> packs = packed.Packs();
    const GenerationSpan& span = generation.span();
    for (int64_t at = span.begin; at < span.end; ++at) {
      const Timeline::Place place = timeline_.At(at);
      const Pass& pass = timeline_.passes()[place.pass];
      // A pass that comes again finds other rows in the cache.
      if (pass.evaluates || timeline_.Find(pass, place.shard, 0) != at) {
        continue;
      }
      const auto shard = static_cast<size_t>(at - span.begin);
      const ShardRecord& record = packed.shards[shard];
      // Sample, plan and rows.
      HEARTH_ASSIGN_OR_RETURN(const uint64_t on_gpu,
                              RowsOnGpu(generation.reader(), at - span.begin));
      pass_.Add({.needed = record.addresses,
                 .on_gpu = on_gpu,
                 .missed = record.reads,
                 .bytes = generation.SamplesOf(place.pass)
                              .sizes()[static_cast<size_t>(place.shard)] +
                          RoundUpToPage(record.plan_bytes()) +
                          RoundUpToPage(packs[shard].bytes),
                 .reads = 2});
      if (place.shard + 1 == ShardsOf(pass, pass.order->size()).count) {
        sum_.Add(std::exchange(pass_, {}));
        ++passes_;
      }
    }
    return absl::OkStatus();
  }

  std::optional<Forecast> Result() const {
    if (passes_ == 0) return std::nullopt;
    const auto mean = [&](uint64_t sum) {
      return (sum + passes_ / 2) / passes_;
    };
    Forecast forecast;
    forecast.rows_needed = mean(sum_.needed);
    const uint64_t missed = mean(sum_.missed);
    const uint64_t on_gpu = mean(sum_.on_gpu);
    const auto level = [&](const char* name, uint64_t rows) {
      forecast.levels.push_back(
          {.level = name, .rows = rows, .bytes = rows * rows_.row_bytes});
    };
    if (gpu_slots_.has_value()) level("gpu_cache", on_gpu);
    level("cpu_cache", forecast.rows_needed - missed - on_gpu);
    if (is_packed_) {
      level("packs", missed);
      forecast.bytes_read = mean(sum_.bytes);
      forecast.read_ops = mean(sum_.reads);
    }
    // Two generations are on disk at a time.
    forecast.disk_bytes = 2 * disk_bytes_;
    return forecast;
  }

 private:
  // As GenerationMaker chooses, but for what earlier generations took.
  bool IsPacked(const GenerationIndex& index) {
    if (index.totals.misses == 0) return true;
    return prices_.Choose(
               {.feature_bytes =
                    static_cast<uint64_t>(rows_.num_rows) * rows_.row_bytes,
                .rows = index.totals.misses + index.totals.filled,
                .row_bytes = static_cast<int64_t>(rows_.row_bytes)}) ==
           Fetching::kPacked;
  }

  absl::StatusOr<uint64_t> RowsOnGpu(const GenerationReader& reader,
                                     int64_t shard) {
    if (!gpu_slots_.has_value()) return 0;
    HEARTH_RETURN_IF_ERROR(buffer_.Resize(reader.PlanMemory(shard)));
    HEARTH_ASSIGN_OR_RETURN(
        const ShardPlan plan,
        reader.ReadPlan(shard, absl::MakeSpan(buffer_.data(), buffer_.size())));
    return static_cast<uint64_t>(
        std::count_if(plan.addresses.begin(), plan.addresses.end(),
                      [&](uint32_t address) { return address < *gpu_slots_; }));
  }

  const Timeline& timeline_;
  FetchPrices& prices_;
  const io::RowLayout& rows_;
  const std::optional<int64_t> gpu_slots_;
  cache::AlignedBuffer buffer_;
  // Of the pass that is not yet whole, and of those that are.
  Reads pass_;
  Reads sum_;
  uint64_t passes_ = 0;
  uint64_t disk_bytes_ = 0;
  bool is_packed_ = true;
};

}  // namespace

absl::StatusOr<std::optional<Forecast>> CountForesightReads(
    const ForesightOptions& options, const ForecastContext& context,
    const ForecastRequest& request) {
  if (request.sequence == nullptr) return std::nullopt;
  const Timeline timeline(*request.sequence, options.first_epochs);
  const Beginning beginning = BeginningWithin(timeline, request.most_batches);
  if (beginning.end == 0) return std::nullopt;
  HEARTH_ASSIGN_OR_RETURN(const store::StoredFeatures features,
                          context.dataset.OpenFeatures({}));
  const io::RowLayout& rows = features.layout;
  const SlotCounts counts =
      SlotsOf(options, rows.num_rows, static_cast<int64_t>(rows.row_bytes));
  FetchPrices prices;
  if (context.disk != nullptr) {
    prices.SetRates(RatesOf(*context.disk, context.pipeline.extractors,
                            options.io_depth, rows.row_bytes));
  }
  const std::string folder = io::JoinPath(context.scratch_folder, "foresight");
  std::optional<Forecast> forecast;
  absl::Status status;
  {
    plan::PlanStore plans(context.files, context.clock, {.folder = folder});
    KeptSource source(context.dataset, context.labels,
                      context.pipeline.topology, context.files);
    const ForesightContext making = {.dataset = context.dataset,
                                     .labels = context.labels,
                                     .rows = rows,
                                     .files = context.files,
                                     .clock = context.clock,
                                     .plans = plans,
                                     .samplers = context.pipeline.samplers,
                                     .num_slots = counts.total(),
                                     .source = source,
                                     .prices = prices,
                                     .packs = false};
    GenerationMaker maker(making, timeline);
    Counting counting(
        timeline, prices, rows,
        options.gpu_cache_bytes > 0 ? std::optional(counts.gpu) : std::nullopt);
    std::string first_plan;
    for (int64_t at = 0; at < beginning.end && status.ok();) {
      const auto made = maker.MakeNext({.position = at}, /*fill=*/nullptr,
                                       context.listener, context.stop);
      status = made.status();
      if (!status.ok()) break;
      status = counting.Add(*made->generation);
      if (!status.ok()) break;
      if (first_plan.empty()) first_plan = made->generation->name();
      at = made->generation->span().end;
    }
    if (status.ok()) forecast = counting.Result();
    if (forecast.has_value()) forecast->plan = first_plan;
  }
  const absl::Status removed = context.files.RemoveTree(folder);
  HEARTH_RETURN_IF_ERROR(status);
  HEARTH_RETURN_IF_ERROR(removed);
  if (!forecast.has_value()) return forecast;
  const auto plan = context.plans.Get(forecast->plan);
  forecast->plan_exists =
      plan.ok() && plan->state == plan::PlanInfo::State::kWhole;
  forecast->total_batches = static_cast<uint64_t>(TotalBatches(request.passes));
  forecast->sampled_batches = static_cast<uint64_t>(beginning.batches);
  return forecast;
}

MemoryEstimate EstimateForesightCountingMemory(const ForesightOptions& options,
                                               const MemoryBasis& basis) {
  MemoryEstimate estimate;
  estimate.Add("topology", OfflineTopologyBytes(basis, basis.num_batches));
  const int64_t slots =
      SlotsOf(options, basis.num_nodes(), basis.row_bytes()).total();
  estimate.Add(
      "planning",
      plan::OptimalCache::MemoryBytes(
          basis.num_nodes(), slots, basis.batches.WithMargin().num_inputs(),
          (Timeline::kMostPasses + 2) * basis.num_batches * basis.shards) +
          static_cast<uint64_t>(slots) * 6);
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = OfflineSamples(basis),
              .assembled = 0},
             estimate);
  return estimate;
}

}  // namespace hearth::strategy
