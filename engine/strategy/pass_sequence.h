#ifndef HEARTH_ENGINE_STRATEGY_PASS_SEQUENCE_H_
#define HEARTH_ENGINE_STRATEGY_PASS_SEQUENCE_H_

#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/strategy/pass.h"

/// The passes that a strategy prepares for.

namespace hearth::strategy {

/// The distinct passes of a job, each from its first batch on, and the order in
/// which the job will probably run them. The order is a guess: a job may end
/// early, and jobs that share passes take turns.
struct PassSequence {
  PassSequence() = default;
  // NOLINTBEGIN(google-explicit-constructor): passes are a sequence.
  /// Each of `once` once, in this order.
  PassSequence(std::vector<Pass> once) : passes(std::move(once)) {
    order.resize(passes.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  PassSequence(std::initializer_list<Pass> once)
      : PassSequence(std::vector<Pass>(once)) {}
  // NOLINTEND(google-explicit-constructor)

  /// What is left: the sequence from the pass that comes next on.
  PassSequence Rest() const {
    PassSequence rest;
    rest.passes = passes;
    rest.order.assign(order.begin() + static_cast<ptrdiff_t>(next),
                      order.end());
    return rest;
  }

  std::vector<Pass> passes;
  /// Indices in `passes`. A pass that comes again is there again.
  std::vector<size_t> order;
  /// Index in `order` of the pass that comes next; those before it are over.
  size_t next = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PASS_SEQUENCE_H_
