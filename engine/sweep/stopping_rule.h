#ifndef HEARTH_ENGINE_SWEEP_STOPPING_RULE_H_
#define HEARTH_ENGINE_SWEEP_STOPPING_RULE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// The rules by which trials stop early: options of each, and the interface
/// through which a Search asks.

namespace hearth::sweep {

/// All trials are trained to their end.
struct RunAll {};

/// Asynchronous successive halving of the stopping kind (Li et al., "A System
/// for Massively Parallel Hyperparameter Tuning", MLSys 2020): at the rungs
/// first_rung * eta^i, a trial continues if it is among the best ceil(n / eta)
/// of the n trials that have reached the rung so far.
struct Asha {
  int64_t eta = 3;
  int64_t first_rung = 1;
};

/// Successive halving (Jamieson and Talwalkar, AISTATS 2016): the same rungs,
/// but a trial waits at each rung until all others have reached it or ended.
struct Halving {
  int64_t eta = 3;
  int64_t first_rung = 1;
};

/// The median stopping rule (Golovin et al., "Google Vizier", KDD 2017): a
/// trial stops after an epoch if its best result so far is worse than the
/// median, over the other trials, of the mean of their results up to that
/// epoch; at least `min_others` others must have reached it.
struct Median {
  /// First epoch after which a trial may stop.
  int64_t first_epoch = 1;
  int64_t min_others = 3;
};

using Stopping = std::variant<RunAll, Asha, Halving, Median>;

/// Score of a trial at a boundary. Greater is better; a score that is not
/// finite is worse than all finite ones.
struct Result {
  double best = 0;
  double mean = 0;
};

/// Whether trial `a` with the best result `x` comes before trial `b` with `y`:
/// by result, and by number for equal results.
bool ComesBefore(int64_t a, double x, int64_t b, double y);

/// How a trial ended.
enum class Outcome { kSucceeded, kFailed, kStopped };

/// Decision about a trial at a boundary.
struct StopDecision {
  int64_t trial = 0;
  bool goes_on = false;
  /// Why the trial stops, for people.
  std::string reason;
};

/// Decides at boundaries, which are epochs, which trials continue. Call Reach
/// for all trials that reach a boundary together before Judge. Deterministic.
/// Single-owner.
class StoppingRule {
 public:
  virtual ~StoppingRule() = default;

  /// First boundary after `epoch`; nullopt if there is none.
  virtual std::optional<int64_t> NextBoundary(int64_t epoch) const = 0;

  /// A trial has reached the boundary, and waits for a decision.
  virtual void Reach(int64_t trial, int64_t boundary, const Result& result) = 0;

  /// A trial has ended on its way to `boundary`. A trial that succeeded counts
  /// with `final` there and at all later boundaries; one that failed counts as
  /// the worst there; one that was stopped from outside does not count any
  /// more.
  virtual void End(int64_t trial, int64_t boundary, Outcome outcome,
                   const Result& final) = 0;

  /// Decisions about the trials that need not wait any more, each once.
  virtual std::vector<StopDecision> Judge() = 0;
};

/// Makes the rule for `trials` trials of at most `epochs` epochs: no boundary
/// is at or after the last epoch. Only Halving uses `trials`.
std::unique_ptr<StoppingRule> NewStoppingRule(const Stopping& stopping,
                                              int64_t trials, int64_t epochs);

}  // namespace hearth::sweep

#endif  // HEARTH_ENGINE_SWEEP_STOPPING_RULE_H_
