#include "engine/strategy/kinds.h"

#include <array>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/forecast/forecast.h"
#include "engine/strategy/ginex/ginex.h"
#include "engine/strategy/gnndrive/gnndrive.h"
#include "engine/strategy/outre/outre.h"
#include "engine/strategy/row_count.h"

namespace hearth::strategy {
namespace {

// A strategy's line of the table. Functions are as those of kinds.h.
template <typename Options>
struct Entry {
  StrategyKind kind;
  absl::StatusOr<std::unique_ptr<Strategy>> (*make)(const Options&,
                                                    const PipelineOptions&,
                                                    const store::Dataset&,
                                                    const StrategyResources&);
  absl::StatusOr<MemoryEstimate> (*estimate_memory)(const Options&,
                                                    const MemoryBasis&);
  // Null: always.
  bool (*delivers_in_order)(const Options&) = nullptr;
  // Null: rows are counted.
  absl::StatusOr<Forecast> (*forecast)(const Options&, const ForecastContext&,
                                       const ForecastRequest&) = nullptr;
  MemoryEstimate (*estimate_forecast_memory)(const Options&,
                                             const MemoryBasis&) = nullptr;
};

constexpr std::tuple kEntries{
    Entry<MemoryOptions>{.kind = {.name = "memory",
                                  .leaves_neighbors_on_disk = false,
                                  .takes_history = true},
                         .make = NewAddressableStrategy,
                         .estimate_memory = EstimateAddressableMemory},
    Entry<MmapOptions>{.kind = {.name = "mmap",
                                .reads_single_rows = true,
                                .takes_history = true},
                       .make = NewAddressableStrategy,
                       .estimate_memory = EstimateAddressableMemory},
    Entry<GnndriveOptions>{
        .kind = {.name = "gnndrive",
                 .needs_measured_batches = true,
                 .reads_single_rows = true,
                 .takes_history = true},
        .make = NewGnndriveStrategy,
        .estimate_memory = EstimateGnndriveMemory,
        .delivers_in_order =
            [](const GnndriveOptions& options) { return !options.reorder; }},
    Entry<GinexOptions>{.kind = {.name = "ginex",
                                 .reads_single_rows = true,
                                 .takes_history = true},
                        .make = NewGinexStrategy,
                        .estimate_memory = EstimateGinexMemory},
    Entry<DiskgnnOptions>{
        .kind = {.name = "diskgnn", .makes_plans = true},
        .make = NewDiskgnnStrategy,
        .estimate_memory = EstimateDiskgnnMemory,
        .forecast = ForecastDiskgnn,
        .estimate_forecast_memory = EstimateDiskgnnForecastMemory},
    Entry<OutreOptions>{.kind = {.name = "outre",
                                 .reads_single_rows = true,
                                 .takes_history = true},
                        .make = NewOutreStrategy,
                        .estimate_memory = EstimateOutreMemory,
                        .forecast = ForecastOutre},
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

absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  return std::visit(
      [&](const auto& chosen) {
        return EntryOf(chosen).make(chosen, pipeline, dataset, resources);
      },
      options);
}

absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis) {
  return std::visit(
      [&](const auto& chosen) {
        return EntryOf(chosen).estimate_memory(chosen, basis);
      },
      options);
}

absl::StatusOr<Forecast> MakeForecast(const StrategyOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request) {
  return std::visit(
      [&](const auto& chosen) -> absl::StatusOr<Forecast> {
        const auto& entry = EntryOf(chosen);
        if (entry.forecast != nullptr) {
          return entry.forecast(chosen, context, request);
        }
        HEARTH_ASSIGN_OR_RETURN(Forecast forecast, CountRows(context, request));
        forecast.notes.push_back(absl::StrCat(
            "Reads and time of strategy ", entry.kind.name,
            " are not forecast: they depend on what its caches hold when."));
        return forecast;
      },
      options);
}

MemoryEstimate EstimateForecastMemory(const StrategyOptions& options,
                                      const MemoryBasis& basis) {
  return std::visit(
      [&](const auto& chosen) {
        const auto estimate = EntryOf(chosen).estimate_forecast_memory;
        return estimate == nullptr ? EstimateCountingMemory(basis)
                                   : estimate(chosen, basis);
      },
      options);
}

}  // namespace hearth::strategy
