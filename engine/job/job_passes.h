#ifndef HEARTH_ENGINE_JOB_JOB_PASSES_H_
#define HEARTH_ENGINE_JOB_JOB_PASSES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/job/train_job_options.h"
#include "engine/sample/history.h"
#include "engine/sample/seed_order.h"
#include "engine/store/topology.h"
#include "engine/strategy/batch_bound.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// The passes of a job: over the nodes of each split that have labels, in which
/// order, sampled with which keys. Passes live as long as this. Movable.
class JobPasses {
 public:
  /// `training` orders the training nodes; validation and test visit theirs in
  /// the order of the split. `fanouts_of` are those of the edge types
  /// (FanoutsByType).
  JobPasses(const DataOptions& data,
            std::unique_ptr<sample::SeedOrder> training,
            std::vector<store::NodeId> valid, std::vector<store::NodeId> test,
            std::vector<std::vector<int32_t>> fanouts_of = {});

  /// Nodes of each split.
  int64_t num_train() const { return train_order_->size(); }
  int64_t num_valid() const { return valid_order_->size(); }
  int64_t num_test() const { return test_order_->size(); }

  /// The pass of a training epoch (counted from 0), of validation, of the test.
  /// See hearth.v1.DataSpec for the epoch keys.
  strategy::Pass Training(int64_t epoch) const;
  strategy::Pass Validation() const;
  strategy::Pass Testing() const;

  /// Passes that differ in their seeds: a training one and the two others.
  std::vector<strategy::Pass> Kinds() const;

  /// Periods, counted from 0: runs of epochs whose batches are sampled
  /// beforehand together, all epochs or refresh_epochs of them.
  int64_t num_periods() const;
  int64_t PeriodOf(int64_t epoch) const;
  /// The first epoch of a period, from 0.
  int64_t FirstEpochOf(int64_t period) const;
  /// The passes that are run in a period: each distinct training pass once,
  /// validation and test, where there are nodes for them.
  std::vector<strategy::Pass> OfPeriod(int64_t period) const;

  /// Gives the training passes a history, for passes made from now on.
  void SetHistory(std::shared_ptr<const sample::HistoryPolicy> history) {
    history_ = std::move(history);
  }

  /// Labeled training nodes of each class; empty for other labels.
  const std::vector<int64_t>& class_counts() const { return class_counts_; }
  void SetClassCounts(std::vector<int64_t> counts) {
    class_counts_ = std::move(counts);
  }

  /// Sets the bound of the batches of all passes, for passes made from now on.
  void SetBatches(const strategy::BatchBound& batches) { batches_ = batches; }

 private:
  strategy::Pass Of(const sample::SeedOrder& order, uint64_t epoch_key) const;

  DataOptions data_;
  std::vector<std::vector<int32_t>> fanouts_of_;
  std::unique_ptr<sample::SeedOrder> train_order_;
  std::unique_ptr<sample::SeedOrder> valid_order_;
  std::unique_ptr<sample::SeedOrder> test_order_;
  std::shared_ptr<const sample::HistoryPolicy> history_;
  std::vector<int64_t> class_counts_;
  strategy::BatchBound batches_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_PASSES_H_
