#ifndef HEARTH_ENGINE_JOB_DATA_PASSES_H_
#define HEARTH_ENGINE_JOB_DATA_PASSES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/sample/history.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Refuses a dataset on which no model can be trained: FAILED_PRECONDITION if
/// it lacks edges, features of any node type, or labels or training nodes of
/// the target type. UNIMPLEMENTED, naming the types, if it has several and
/// `data` asks for a strategy or an order that takes one; INVALID_ARGUMENT if
/// it asks for layer-wise sampling then, or has fan-outs of edge types that are
/// not there.
absl::Status CheckTrainable(const store::Dataset& dataset,
                            const BatchOptions& data);

/// BatchOptions::fanouts_of by the number of the edge type, as samplers take
/// them: empty without any. INVALID_ARGUMENT naming one that is not there.
absl::StatusOr<std::vector<std::vector<int32_t>>> FanoutsByType(
    const store::Manifest& manifest, const BatchOptions& data);

/// The nodes of a split that a job works on.
struct LabeledSplit {
  store::Split nodes;
  /// A line for each part from which nodes were left out.
  std::vector<std::string> warnings;
};

/// Leaves out the nodes without a label, which a split may have (a test set
/// whose labels are kept secret, say). FAILED_PRECONDITION if no training node
/// is left. REQUIRES: the split is one of the nodes of `labels`.
absl::StatusOr<LabeledSplit> WithoutUnlabeled(store::Split split,
                                              const store::Labels& labels);

/// The passes of a job: over the nodes of each split that have labels, in which
/// order, sampled with which keys. Passes live as long as this. Movable.
class PassSchedule {
 public:
  /// `training` orders the training nodes; validation and test visit theirs in
  /// the order of the split. `fanouts_of` are those of the edge types
  /// (FanoutsByType).
  PassSchedule(const BatchOptions& data,
               std::unique_ptr<sample::SeedOrder> training,
               std::vector<store::NodeId> valid,
               std::vector<store::NodeId> test,
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

  BatchOptions data_;
  std::vector<std::vector<int32_t>> fanouts_of_;
  std::unique_ptr<sample::SeedOrder> train_order_;
  std::unique_ptr<sample::SeedOrder> valid_order_;
  std::unique_ptr<sample::SeedOrder> test_order_;
  std::shared_ptr<const sample::HistoryPolicy> history_;
  std::vector<int64_t> class_counts_;
  strategy::BatchBound batches_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_PASSES_H_
