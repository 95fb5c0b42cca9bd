#ifndef HEARTH_ENGINE_STRATEGY_BUDGET_H_
#define HEARTH_ENGINE_STRATEGY_BUDGET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/strategy/pass.h"

/// Budgets: amounts that a strategy can do with less of, so that a job fits
/// into memory. No cut changes a batch.

namespace hearth::strategy {

/// A number of bytes that stands for "auto": kinds.h resolves it before
/// anything else looks at it.
inline constexpr uint64_t kAutoBytes = UINT64_MAX;

enum class BudgetUnit { kBytes, kBatches, kThreads };

/// "bytes", "batches" or "threads".
absl::string_view Name(BudgetUnit unit);

/// A part of a configuration that may be smaller than asked.
struct Budget {
  /// Its option: "cpu-cache".
  std::string option;
  BudgetUnit unit = BudgetUnit::kBytes;
  uint64_t asked = 0;
  /// At most `asked`.
  uint64_t least = 0;
  /// More than that is of no use; 0 = `asked` is.
  uint64_t useful = 0;
  /// Below what is asked and of use, its multiples are tried.
  uint64_t step = 1;
};

/// A budget that was cut.
struct BudgetCut {
  std::string option;
  BudgetUnit unit = BudgetUnit::kBytes;
  uint64_t asked = 0;
  uint64_t chosen = 0;

  bool operator==(const BudgetCut&) const = default;
};

/// "cpu-cache: 512.0 MiB instead of 1.0 GiB".
std::string Describe(const BudgetCut& cut);

/// How much of each budget there is, in their order, so that `estimate` of all
/// is at most `limit_bytes`: as asked, if that fits. Otherwise they are cut one
/// after the other, the first to its least before the second is touched, and
/// the last that has to be cut to the most that fits. A budget whose least
/// takes more memory than all of it stays whole, as a cache of all rows may,
/// beside which no row is read. If nothing fits, all are at their least, or
/// whole. REQUIRES: if all of a budget does not fit, but some of it does, less
/// of it does, too; `estimate` is called a few dozen times.
std::vector<uint64_t> FitBudgets(
    absl::Span<const Budget> budgets, uint64_t limit_bytes,
    absl::FunctionRef<uint64_t(absl::Span<const uint64_t> amounts)> estimate);

/// The budgets that `amounts` have less of than asked.
std::vector<BudgetCut> CutsOf(absl::Span<const Budget> budgets,
                              absl::Span<const uint64_t> amounts);

/// Memory for rows, or for what is kept like them, which is cut to multiples of
/// 64 MiB, or of a sixteenth of it if that is less. `useful_bytes` as in
/// Budget.
Budget CacheBudget(std::string option, uint64_t asked_bytes,
                   uint64_t useful_bytes);

/// The part of a job's configuration that may be cut.
template <typename Options>
struct Configuration {
  Options strategy;
  PipelineOptions pipeline;
};

/// A budget of a strategy, and how it is set.
template <typename Options>
struct BudgetOf {
  Budget budget;
  std::function<void(uint64_t amount, Configuration<Options>&)> set;
};

/// The threads that bring rows together, and those that sample.
template <typename Options>
std::vector<BudgetOf<Options>> ThreadBudgets(const PipelineOptions& pipeline) {
  const auto threads = [](std::string option, int PipelineOptions::*count,
                          int asked) {
    return BudgetOf<Options>{
        .budget = {.option = std::move(option),
                   .unit = BudgetUnit::kThreads,
                   .asked = static_cast<uint64_t>(asked),
                   .least = 1},
        .set = [count](uint64_t amount, Configuration<Options>& configuration) {
          configuration.pipeline.*count = static_cast<int>(amount);
        }};
  };
  return {
      threads("extractors", &PipelineOptions::extractors, pipeline.extractors),
      threads("samplers", &PipelineOptions::samplers, pipeline.samplers)};
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BUDGET_H_
