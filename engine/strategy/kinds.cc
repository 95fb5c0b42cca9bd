#include "engine/strategy/kinds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/addressable/addressable_price.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/forecast/diskgnn_price.h"
#include "engine/strategy/diskgnn/forecast/forecast.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/foresight/foresight.h"
#include "engine/strategy/foresight/foresight_forecast.h"
#include "engine/strategy/foresight/foresight_price.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/gids/gids_price.h"
#include "engine/strategy/ginex/ginex.h"
#include "engine/strategy/gnndrive/gnndrive.h"
#include "engine/strategy/gnndrive/gnndrive_price.h"
#include "engine/strategy/marius/forecast.h"
#include "engine/strategy/marius/marius.h"
#include "engine/strategy/outre/outre.h"
#include "engine/strategy/pricing/workload.h"
#include "engine/strategy/superbatch/superbatch_options.h"
#include "engine/strategy/superbatch/superbatch_price.h"

namespace hearth::strategy {
namespace {

// A strategy's entry of the table. Each function implements the one of the same
// name in kinds.h.
template <typename Options>
struct Entry {
  StrategyKind kind;
  absl::StatusOr<std::unique_ptr<Strategy>> (*make)(const Options&,
                                                    const PipelineOptions&,
                                                    const store::Dataset&,
                                                    const StrategyResources&);
  absl::StatusOr<MemoryEstimate> (*estimate_memory)(const Options&,
                                                    const MemoryBasis&);
  std::vector<BudgetOf<Options>> (*budgets)(const Options&, const MemoryBasis&);
  // Null, as price: strategy auto never chooses it (StrategyKind::exact).
  Options (*with_common_budgets)(const CommonBudgets&) = nullptr;
  absl::StatusOr<Price> (*price)(const Options&, const PricedJob&) = nullptr;
  // Null: no budget of kAutoBytes depends on batch sizes.
  Options (*with_measured_budgets)(Options, const MemoryBasis&) = nullptr;
  // Null: always in order.
  bool (*delivers_in_order)(const Options&) = nullptr;
  // Null: never.
  bool (*leaves_rows_in_place)(const Options&) = nullptr;
  // Null: rows are counted.
  absl::StatusOr<Forecast> (*forecast)(const Options&, const ForecastContext&,
                                       const ForecastRequest&) = nullptr;
  // The reads of an epoch without its times, which follow from the price;
  // absent where they cannot be counted. Null: rows are counted.
  absl::StatusOr<std::optional<Forecast>> (*count_reads)(
      const Options&, const ForecastContext&, const ForecastRequest&) = nullptr;
  MemoryEstimate (*estimate_forecast_memory)(const Options&,
                                             const MemoryBasis&) = nullptr;
  // Null: all neighbors are in memory, or none, as the kind says.
  std::string (*describe_resident_lists)(const Options&) = nullptr;
  absl::StatusOr<std::unique_ptr<ResidentLists>> (*find_resident_lists)(
      const Options&, const ResidentListsRequest&) = nullptr;
  // The row cache that may be kAutoBytes; null: there is none.
  uint64_t Options::*row_cache_bytes = nullptr;
  // The bytes of a row cache that holds everything; null: of all rows
  // (MemoryBasis::all_rows_bytes).
  uint64_t (*all_row_cache_bytes)(const MemoryBasis&) = nullptr;
  // The cache of SharedCacheBytes; null: there is none.
  uint64_t Options::*shared_cache_bytes = nullptr;
};

// The depth of strategies that have none of their own by default.
constexpr int kDepth = 64;

int DepthOf(const CommonBudgets& budgets) {
  return budgets.io_depth > 0 ? budgets.io_depth : kDepth;
}

template <typename Options>
absl::StatusOr<Price> PriceLists(const Options& options, const PricedJob& job,
                                 bool by_parts, NeighborRank rank) {
  return PriceSuperbatch({.cpu_cache_bytes = options.cpu_cache_bytes,
                          .neighbor_cache_bytes = options.neighbor_cache_bytes,
                          .neighbor_rank = rank,
                          .superbatch = options.superbatch,
                          .io_depth = options.io_depth},
                         by_parts, job);
}

constexpr std::tuple kEntries{
    Entry<MemoryOptions>{
        .kind = {.name = "memory",
                 .leaves_neighbors_on_disk = false,
                 .samples_on_gpu = true,
                 .places_topology = true,
                 .takes_requests = true},
        .make = NewAddressableStrategy,
        .estimate_memory = EstimateAddressableMemory,
        .budgets = AddressableBudgets,
        .with_common_budgets =
            [](const CommonBudgets&) { return MemoryOptions(); },
        .price = PriceAddressable},
    Entry<MmapOptions>{.kind = {.name = "mmap",
                                .reads_single_rows = true,
                                .samples_on_gpu = true,
                                .places_topology = true,
                                .takes_requests = true},
                       .make = NewAddressableStrategy,
                       .estimate_memory = EstimateAddressableMemory,
                       .budgets = AddressableBudgets,
                       .with_common_budgets =
                           [](const CommonBudgets&) { return MmapOptions(); },
                       .price = PriceAddressable},
    Entry<GnndriveOptions>{
        .kind = {.name = "gnndrive",
                 .needs_measured_batches = true,
                 .reads_single_rows = true,
                 .samples_on_gpu = true,
                 .places_topology = true,
                 .takes_requests = true},
        .make = NewGnndriveStrategy,
        .estimate_memory = EstimateGnndriveMemory,
        .budgets = GnndriveBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              return GnndriveOptions{.cpu_cache_bytes = budgets.cpu_cache_bytes,
                                     .staging_bytes = budgets.staging_bytes,
                                     .io_depth = DepthOf(budgets)};
            },
        .price = PriceGnndrive,
        .delivers_in_order =
            [](const GnndriveOptions& options) { return !options.reorder; },
        .row_cache_bytes = &GnndriveOptions::cpu_cache_bytes},
    Entry<GinexOptions>{
        .kind = {.name = "ginex", .prepares = true, .reads_single_rows = true},
        .make = NewGinexStrategy,
        .estimate_memory = EstimateGinexMemory,
        .budgets = GinexBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              return GinexOptions{.cpu_cache_bytes = budgets.cpu_cache_bytes,
                                  .io_depth = DepthOf(budgets)};
            },
        .price =
            [](const GinexOptions& options, const PricedJob& job) {
              return PriceLists(options, job, /*by_parts=*/false,
                                options.neighbor_rank);
            },
        .forecast = ForecastGinex,
        .estimate_forecast_memory = EstimateGinexForecastMemory,
        .describe_resident_lists = DescribeGinexLists,
        .find_resident_lists = FindGinexLists,
        .row_cache_bytes = &GinexOptions::cpu_cache_bytes,
        .shared_cache_bytes = &GinexOptions::cpu_cache_bytes},
    Entry<DiskgnnOptions>{
        .kind = {.name = "diskgnn",
                 .prepares = true,
                 .makes_plans = true,
                 .takes_shards = true,
                 .places_topology = true,
                 .samples_in_slabs = true},
        .make = NewDiskgnnStrategy,
        .estimate_memory = EstimateDiskgnnMemory,
        .budgets = DiskgnnBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              return DiskgnnOptions{.cpu_cache_bytes = budgets.cpu_cache_bytes,
                                    .gpu_cache_bytes = budgets.gpu_cache_bytes,
                                    .prepare_memory_bytes = kAutoBytes,
                                    .io_depth = DepthOf(budgets)};
            },
        .price = PriceDiskgnn,
        .with_measured_budgets = WithMeasuredDiskgnnBudgets,
        .forecast = ForecastDiskgnn,
        .estimate_forecast_memory = EstimateDiskgnnForecastMemory,
        .row_cache_bytes = &DiskgnnOptions::cpu_cache_bytes},
    Entry<OutreOptions>{
        .kind = {.name = "outre",
                 .prepares = true,
                 .reads_single_rows = true,
                 .needs_partition = true},
        .make = NewOutreStrategy,
        .estimate_memory = EstimateOutreMemory,
        .budgets = OutreBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              return OutreOptions{.cpu_cache_bytes = budgets.cpu_cache_bytes,
                                  .io_depth = DepthOf(budgets)};
            },
        .price =
            [](const OutreOptions& options, const PricedJob& job) {
              return PriceLists(options, job, /*by_parts=*/true,
                                NeighborRank::kCross);
            },
        .forecast = ForecastOutre,
        .estimate_forecast_memory = EstimateOutreForecastMemory,
        .describe_resident_lists = DescribeOutreLists,
        .find_resident_lists = FindOutreLists,
        .row_cache_bytes = &OutreOptions::cpu_cache_bytes,
        .shared_cache_bytes = &OutreOptions::cpu_cache_bytes},
    Entry<GidsOptions>{
        .kind = {.name = "gids",
                 .prepares = true,
                 .makes_plans = true,
                 .needs_measured_batches = true,
                 .reads_single_rows = true,
                 .samples_on_gpu = true,
                 .places_topology = true},
        .make = NewGidsStrategy,
        .estimate_memory = EstimateGidsMemory,
        .budgets = GidsBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              GidsOptions options = {.gpu_cache_bytes = budgets.gpu_cache_bytes,
                                     .staging_bytes = budgets.staging_bytes,
                                     .io_depth = budgets.io_depth};
              if (budgets.cpu_cache_bytes != kAutoBytes) {
                options.cpu_cache_bytes = budgets.cpu_cache_bytes;
              }
              return options;
            },
        .price = PriceGids,
        .forecast = ForecastGids,
        .estimate_forecast_memory = EstimateGidsForecastMemory},
    Entry<ForesightOptions>{
        .kind = {.name = "foresight",
                 .prepares = true,
                 .prepares_throughout = true,
                 .makes_plans = true,
                 .reads_single_rows = true,
                 .takes_shards = true,
                 .places_topology = true,
                 .samples_in_slabs = true},
        .make = NewForesightStrategy,
        .estimate_memory = EstimateForesightMemory,
        .budgets = ForesightBudgets,
        .with_common_budgets =
            [](const CommonBudgets& budgets) {
              ForesightOptions options = {
                  .cpu_cache_bytes = budgets.cpu_cache_bytes,
                  .gpu_cache_bytes = budgets.gpu_cache_bytes,
                  .io_depth = DepthOf(budgets)};
              if (budgets.first_epochs > 0) {
                options.first_epochs = budgets.first_epochs;
              }
              return options;
            },
        .price = PriceForesight,
        .with_measured_budgets = WithMeasuredForesightBudgets,
        .leaves_rows_in_place =
            [](const ForesightOptions& options) {
              return options.gpu_cache_bytes == 0;
            },
        .count_reads = CountForesightReads,
        .estimate_forecast_memory = EstimateForesightCountingMemory,
        .row_cache_bytes = &ForesightOptions::cpu_cache_bytes},
    Entry<MariusOptions>{
        .kind = {.name = "marius",
                 .reads_single_rows = true,
                 .exact = false,
                 .takes_history = false},
        .make = NewMariusStrategy,
        .estimate_memory = EstimateMariusMemory,
        .budgets = MariusBudgets,
        .forecast = ForecastMarius,
        .estimate_forecast_memory = EstimateMariusForecastMemory,
        .row_cache_bytes = &MariusOptions::partition_buffer_bytes,
        .all_row_cache_bytes = AllMariusBytes},
};

// Each alternative has one entry, in the same order.
template <typename... Options>
consteval bool AreEntriesOf(std::variant<Options...>* /*alternatives*/) {
  return std::is_same_v<std::remove_const_t<decltype(kEntries)>,
                        std::tuple<Entry<Options>...>>;
}
static_assert(AreEntriesOf(static_cast<StrategyOptions*>(nullptr)));

constexpr auto kKinds = std::apply(
    [](const auto&... entries) { return std::array{entries.kind...}; },
    kEntries);

template <typename Options>
constexpr const Entry<Options>& EntryOf(const Options& /*options*/) {
  return std::get<Entry<Options>>(kEntries);
}

// Either all neighbor lists are resident, or none.
class AllOrNoLists final : public ResidentLists {
 public:
  explicit AllOrNoLists(bool all) : all_(all) {}
  bool Has(int64_t /*batch*/, store::NodeId /*node*/) const override {
    return all_;
  }

 private:
  const bool all_;
};

}  // namespace

absl::Span<const StrategyKind> StrategyKinds() { return kKinds; }

const StrategyKind& KindOf(const StrategyOptions& options) {
  return kKinds[options.index()];
}

std::string Name(const StrategyOptions& options) {
  return std::string(KindOf(options).name);
}

bool DeliversInOrder(const StrategyOptions& options) {
  return std::visit(
      [](const auto& chosen) {
        const auto delivers_in_order = EntryOf(chosen).delivers_in_order;
        return delivers_in_order == nullptr || delivers_in_order(chosen);
      },
      options);
}

bool IsExact(const StrategyOptions& options) {
  return KindOf(options).exact && DeliversInOrder(options);
}

bool LeavesRowsInPlace(const StrategyOptions& options) {
  return std::visit(
      [](const auto& chosen) {
        const auto leaves_rows_in_place = EntryOf(chosen).leaves_rows_in_place;
        return leaves_rows_in_place != nullptr && leaves_rows_in_place(chosen);
      },
      options);
}

absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  if (pipeline.sampling_gpu.has_value() && !KindOf(options).samples_on_gpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample_on: must be host for strategy ", Name(options),
                     ", which samples from disk, beforehand"));
  }
  HEARTH_RETURN_IF_ERROR(CheckTopology(options, pipeline));
  return std::visit(
      [&](const auto& chosen) {
        return EntryOf(chosen).make(chosen, pipeline, dataset, resources);
      },
      options);
}

absl::Status CheckTopology(const StrategyOptions& options,
                           const PipelineOptions& pipeline) {
  const StrategyKind& kind = KindOf(options);
  if (pipeline.topology == TopologyPlace::kAuto) return absl::OkStatus();
  if (!kind.places_topology) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology: must be auto for strategy ", kind.name,
                     ", which reads neighbors from disk"));
  }
  if (pipeline.topology == TopologyPlace::kSlabs && !kind.samples_in_slabs) {
    return absl::InvalidArgumentError(
        absl::StrCat("topology: must be auto, memory or mapped for strategy ",
                     kind.name, ", which does not sample beforehand"));
  }
  if (pipeline.topology != TopologyPlace::kMemory &&
      pipeline.sampling_gpu.has_value()) {
    return absl::InvalidArgumentError(
        "topology: must be auto or memory where a GPU samples");
  }
  return absl::OkStatus();
}

PipelineOptions WithAutoTopology(const StrategyOptions& options,
                                 PipelineOptions pipeline,
                                 const store::Manifest& manifest,
                                 uint64_t limit_bytes) {
  const MemoryBasis basis = {
      .manifest = manifest, .pipeline = {}, .batches = {}};
  if (pipeline.topology == TopologyPlace::kAuto &&
      KindOf(options).samples_in_slabs &&
      basis.indptr_bytes() + basis.indices_bytes() > limit_bytes / 2) {
    pipeline.topology = TopologyPlace::kSlabs;
  }
  return pipeline;
}

bool LeavesNeighborsOnDisk(const StrategyOptions& options,
                           const PipelineOptions& pipeline) {
  if (pipeline.sampling_gpu.has_value()) return false;
  switch (pipeline.topology) {
    case TopologyPlace::kMapped:
      return true;
    case TopologyPlace::kMemory:
    case TopologyPlace::kSlabs:
      return false;
    case TopologyPlace::kAuto:
      break;
  }
  return KindOf(options).leaves_neighbors_on_disk;
}

absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis) {
  return std::visit(
      [&](const auto& chosen) {
        return EntryOf(chosen).estimate_memory(chosen, basis);
      },
      options);
}

std::vector<Budget> BudgetsOf(const StrategyOptions& options,
                              const MemoryBasis& basis) {
  return std::visit(
      [&](const auto& chosen) {
        std::vector<Budget> budgets;
        for (const auto& budget : EntryOf(chosen).budgets(chosen, basis)) {
          budgets.push_back(budget.budget);
        }
        return budgets;
      },
      options);
}

StrategyConfiguration WithBudgets(const StrategyOptions& options,
                                  const MemoryBasis& basis,
                                  absl::Span<const uint64_t> amounts) {
  return std::visit(
      [&](const auto& chosen) -> StrategyConfiguration {
        const auto budgets = EntryOf(chosen).budgets(chosen, basis);
        Configuration<std::decay_t<decltype(chosen)>> configuration = {
            .strategy = chosen, .pipeline = basis.pipeline};
        for (size_t i = 0; i < budgets.size(); ++i) {
          if (amounts[i] == budgets[i].budget.asked) continue;
          budgets[i].set(amounts[i], configuration);
        }
        return {.strategy = std::move(configuration.strategy),
                .pipeline = configuration.pipeline};
      },
      options);
}

StrategyOptions WithAutoBudgets(StrategyOptions options,
                                const store::Manifest& manifest,
                                uint64_t limit_bytes) {
  const MemoryBasis basis = {
      .manifest = manifest, .pipeline = {}, .batches = {}};
  std::visit(
      [&](auto& chosen) {
        const auto& entry = EntryOf(chosen);
        const auto bytes = entry.row_cache_bytes;
        if (bytes == nullptr || chosen.*bytes != kAutoBytes) return;
        const auto all = entry.all_row_cache_bytes;
        chosen.*bytes =
            std::min(all == nullptr ? basis.all_rows_bytes() : all(basis),
                     limit_bytes / 2);
      },
      options);
  return options;
}

StrategyOptions WithMeasuredBudgets(StrategyOptions options,
                                    const MemoryBasis& basis) {
  return std::visit(
      [&](auto& chosen) -> StrategyOptions {
        const auto size = EntryOf(chosen).with_measured_budgets;
        if (size == nullptr) return std::move(chosen);
        return size(std::move(chosen), basis);
      },
      options);
}

StrategyOptions WithCommonBudgets(size_t kind, const CommonBudgets& budgets) {
  StrategyOptions options;
  std::apply(
      [&](const auto&... entries) {
        size_t index = 0;
        const auto set = [&](const auto& entry) {
          if (index++ != kind || entry.with_common_budgets == nullptr) return;
          options = entry.with_common_budgets(budgets);
        };
        (set(entries), ...);
      },
      kEntries);
  return options;
}

absl::StatusOr<Price> PriceOf(const StrategyOptions& options,
                              const PricedJob& job) {
  return std::visit(
      [&](const auto& chosen) -> absl::StatusOr<Price> {
        const auto price = EntryOf(chosen).price;
        if (price == nullptr) {
          return absl::UnimplementedError(absl::StrCat(
              "strategy ", EntryOf(chosen).kind.name, " has no price"));
        }
        return price(chosen, job);
      },
      options);
}

uint64_t LikelyPageCacheBytes(uint64_t held_bytes) {
  const uint64_t left = AvailableMemoryBytes();
  return left > held_bytes ? (left - held_bytes) / 2 : 0;
}

namespace {

// Batches to price a forecast by.
constexpr int64_t kPricedBatches = 64;

// Adds times and reads, from the strategy's price, to a forecast of its rows.
absl::Status AddPrice(const StrategyOptions& options,
                      const ForecastContext& context,
                      const ForecastRequest& request, double step_seconds,
                      Forecast& forecast) {
  ForecastRequest sampled = request;
  sampled.most_batches = std::min(request.most_batches, kPricedBatches);
  HEARTH_ASSIGN_OR_RETURN(
      SampledWorkload sample,
      SampleWorkload(context, sampled, /*kept=*/0,
                     /*repeats=*/request.num_training == 1));
  Workload& work = sample.workload;
  work.training.step_seconds = step_seconds;
  work.train_threads = request.train_threads;
  const Pass& pass = request.passes.front();
  const MemoryBasis basis = {.manifest = context.dataset.manifest(),
                             .pipeline = context.pipeline,
                             .batches = pass.batches,
                             .shards = static_cast<int>(pass.shards)};
  HEARTH_ASSIGN_OR_RETURN(const MemoryEstimate memory,
                          EstimateMemory(options, basis));
  HEARTH_ASSIGN_OR_RETURN(
      const Price price,
      PriceOf(options,
              {.work = work,
               .disk = *context.disk,
               .processors = UsableProcessors(),
               .page_cache_bytes = LikelyPageCacheBytes(memory.TotalBytes()),
               .basis = basis,
               .checks_rows = KindOf(options).reads_single_rows}));
  const auto rounded = [](double value) {
    return static_cast<uint64_t>(std::llround(value));
  };
  const bool counted = forecast.bytes_read.has_value();
  if (!counted) {
    forecast.bytes_read = rounded(price.bytes_read);
    forecast.read_ops = rounded(price.read_ops);
  }
  forecast.prepare_seconds = price.prepare_seconds;
  forecast.first_epoch_seconds = price.first_epoch_seconds;
  forecast.epoch_seconds = price.epoch_seconds;
  forecast.notes.push_back(absl::StrCat(
      counted ? "Times are" : "Reads and times are", " estimates from ",
      work.sampled_batches, " batches and the rates of the disk; ",
      counted ? "they are" : "reads are those",
      " of a later epoch, and the first takes ",
      absl::StrFormat("%.1f s.", price.first_epoch_seconds)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Forecast> MakeForecast(const StrategyOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request) {
  return std::visit(
      [&](const auto& chosen) -> absl::StatusOr<Forecast> {
        const auto& entry = EntryOf(chosen);
        if (entry.forecast != nullptr) {
          return entry.forecast(chosen, context, request);
        }
        double step_seconds = 0;
        if (context.disk != nullptr) {
          HEARTH_ASSIGN_OR_RETURN(step_seconds, request.time_training());
        }
        std::optional<Forecast> forecast;
        if (entry.count_reads != nullptr) {
          HEARTH_ASSIGN_OR_RETURN(forecast,
                                  entry.count_reads(chosen, context, request));
        }
        if (!forecast.has_value()) {
          HEARTH_ASSIGN_OR_RETURN(forecast, CountRows(context, request));
        }
        if (context.disk != nullptr) {
          HEARTH_RETURN_IF_ERROR(
              AddPrice(chosen, context, request, step_seconds, *forecast));
        }
        return *std::move(forecast);
      },
      options);
}

std::string DescribeResidentLists(const StrategyOptions& options) {
  return std::visit(
      [](const auto& chosen) -> std::string {
        const auto& entry = EntryOf(chosen);
        if (entry.describe_resident_lists != nullptr) {
          return entry.describe_resident_lists(chosen);
        }
        return entry.kind.leaves_neighbors_on_disk ? "none" : "all";
      },
      options);
}

absl::StatusOr<std::unique_ptr<ResidentLists>> FindResidentLists(
    const StrategyOptions& options, const ResidentListsRequest& request) {
  return std::visit(
      [&](const auto& chosen)
          -> absl::StatusOr<std::unique_ptr<ResidentLists>> {
        const auto& entry = EntryOf(chosen);
        if (entry.find_resident_lists != nullptr) {
          return entry.find_resident_lists(chosen, request);
        }
        return std::make_unique<AllOrNoLists>(
            !entry.kind.leaves_neighbors_on_disk);
      },
      options);
}

std::optional<uint64_t> SharedCacheBytes(const StrategyOptions& options) {
  return std::visit(
      [](const auto& chosen) -> std::optional<uint64_t> {
        const auto bytes = EntryOf(chosen).shared_cache_bytes;
        if (bytes == nullptr) return std::nullopt;
        return chosen.*bytes;
      },
      options);
}

StrategyOptions WithSharedCache(StrategyOptions options, uint64_t bytes) {
  std::visit(
      [bytes](auto& chosen) {
        const auto shared = EntryOf(chosen).shared_cache_bytes;
        if (shared != nullptr) chosen.*shared = bytes;
      },
      options);
  return options;
}

MemoryEstimate EstimateForecastMemory(const StrategyOptions& options,
                                      const MemoryBasis& basis, bool has_disk) {
  return std::visit(
      [&](const auto& chosen) {
        const auto estimate = EntryOf(chosen).estimate_forecast_memory;
        const MemoryEstimate counting = estimate != nullptr
                                            ? estimate(chosen, basis)
                                            : EstimateCountingMemory(basis);
        // Prices are computed afterwards.
        if (EntryOf(chosen).forecast != nullptr || !has_disk) return counting;
        const MemoryEstimate sampling =
            EstimateSamplingMemory(basis, /*kept=*/0);
        return sampling.TotalBytes() > counting.TotalBytes() ? sampling
                                                             : counting;
      },
      options);
}

}  // namespace hearth::strategy
