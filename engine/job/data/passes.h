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
#include "engine/strategy/pass_sequence.h"
#include "engine/strategy/strategy.h"

/// What a job reads from a dataset: checks that it can be trained on, the
/// labeled nodes of its splits, and the passes over them.

namespace hearth::job {

/// Checks that a model can be trained on a dataset. FAILED_PRECONDITION if it
/// lacks edges, features of any node type, training nodes of the target type,
/// where `data` has none of its own, or its labels, unless `data` needs none.
/// INVALID_ARGUMENT, naming the types, if it has several and `data` asks for
/// layer-wise sampling, or if `data` has fan-outs of unknown edge types.
absl::Status CheckTrainable(const store::Dataset& dataset,
                            const BatchOptions& data);

/// BatchOptions::fanouts_of, indexed by edge type, as samplers take them; empty
/// without any. INVALID_ARGUMENT naming an unknown edge type.
absl::StatusOr<std::vector<std::vector<int32_t>>> FanoutsByType(
    const store::Manifest& manifest, const BatchOptions& data);

/// A split without its unlabeled nodes.
struct LabeledSplit {
  store::Split nodes;
  /// A line for each part of the split that lost nodes.
  std::vector<std::string> warnings;
};

/// Removes the nodes without a label from a split (a test set's labels may be
/// kept secret), but for parts that are `own`, which clients have chosen, and
/// where the dataset has no labels (of width 0).
/// FAILED_PRECONDITION if no training node is left. REQUIRES: the split and
/// `labels` are of the same nodes.
absl::StatusOr<LabeledSplit> WithoutUnlabeled(store::Split split,
                                              const store::Labels& labels,
                                              const OwnNodes& own = {});

/// The passes of a job over the labeled nodes of each split: the order of their
/// seeds and the keys of their samples. Passes refer to this object and live as
/// long. Movable.
class PassSchedule {
 public:
  /// `training` orders the training nodes; validation and test visit their
  /// nodes in the order of the split. `fanouts_of` as from FanoutsByType.
  PassSchedule(const BatchOptions& data,
               std::unique_ptr<sample::SeedOrder> training,
               std::vector<store::NodeId> valid,
               std::vector<store::NodeId> test,
               std::vector<std::vector<int32_t>> fanouts_of = {});

  /// Number of nodes of each split.
  int64_t num_train() const { return train_order_->size(); }
  int64_t num_valid() const { return valid_order_->size(); }
  int64_t num_test() const { return test_order_->size(); }

  /// The pass of a training epoch (from 0), of validation, of the test. See
  /// hearth.v1.DataSpec for the epoch keys.
  strategy::Pass Training(int64_t epoch) const;
  strategy::Pass Validation() const;
  strategy::Pass Testing() const;

  /// A pass over seeds that are asked for (strategy::Pass::requests, to be
  /// set): a batch of the same seeds and number as one of training epoch
  /// `epoch`, before any repeats, has its sample.
  strategy::Pass Requested(int64_t epoch) const;

  /// Passes that differ in their seeds: one training pass, validation and test.
  std::vector<strategy::Pass> Kinds() const;

  /// Periods, counted from 0: runs of epochs whose batches are sampled together
  /// beforehand, of refresh_epochs each, or one period of all epochs.
  int64_t num_periods() const;
  int64_t PeriodOf(int64_t epoch) const;
  /// First epoch of a period, from 0.
  int64_t FirstEpochOf(int64_t period) const;
  /// Passes of a period: each distinct training pass once, then validation and
  /// test where there are nodes for them.
  std::vector<strategy::Pass> OfPeriod(int64_t period) const;

  /// All passes of `job`, one of those that share these passes, in their order:
  /// each epoch is trained on and validated, the last one tested. The pass of
  /// its training epoch `epoch` comes next; behind the last one, the test.
  strategy::PassSequence SequenceOf(const BatchOptions& job,
                                    int64_t epoch) const;

  /// Sets the history of training passes that are made from now on.
  void SetHistory(std::shared_ptr<const sample::HistoryPolicy> history) {
    history_ = std::move(history);
  }

  /// Number of labeled training nodes of each class; empty unless labels are
  /// classes.
  const std::vector<int64_t>& class_counts() const { return class_counts_; }
  void SetClassCounts(std::vector<int64_t> counts) {
    class_counts_ = std::move(counts);
  }

  /// Sets the bound of the batches of passes that are made from now on.
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
