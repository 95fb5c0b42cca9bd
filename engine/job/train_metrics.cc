#include "engine/job/train_metrics.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

using metrics::Counter;
using metrics::Gauge;
using metrics::Labels;
using metrics::Registry;

// One stage's series, and what was last added to them.
struct StageSeries {
  std::unique_ptr<Counter> busy;
  std::unique_ptr<Counter> starved;
  std::unique_ptr<Counter> blocked;
  std::unique_ptr<Gauge> queue;
  pipeline::StageStats last;
};

class TrainMetricsImpl final : public TrainMetrics {
 public:
  TrainMetricsImpl(Registry& registry, const std::string& job,
                   const std::string& strategy)
      : registry_(registry), labels_{{"job", job}, {"strategy", strategy}} {
    batches_ = registry.NewCounter("hearth_train_batches_total",
                                   "Training batches done.", labels_);
    epochs_ = registry.NewCounter("hearth_train_epochs_total",
                                  "Training epochs done.", labels_);
    loss_ = registry.NewGauge("hearth_train_loss",
                              "Loss of the last training batch.", labels_);
    rows_ = registry.NewCounter("hearth_feature_rows_needed_total",
                                "Feature rows that batches needed.", labels_);
    bytes_ =
        registry.NewCounter("hearth_feature_needed_bytes_total",
                            "Bytes of features that batches needed.", labels_);
  }

  void OnBatch(double loss) override {
    batches_->Add(1);
    loss_->Set(loss);
  }

  void OnEpoch(const EpochReport& epoch) override {
    epochs_->Add(1);
    if (!epoch.valid_metric.has_value()) return;
    absl::MutexLock lock(&mutex_);
    if (metric_ == nullptr) {
      // What is measured is known only now.
      Labels labels = labels_;
      labels["metric"] = train::Name(epoch.metric);
      metric_ = registry_.NewGauge(
          "hearth_train_valid_metric",
          "Metric on the validation nodes after the last epoch.", labels);
    }
    metric_->Set(*epoch.valid_metric);
  }

  void OnStages(const std::vector<pipeline::StageStats>& stages,
                bool new_pass) override {
    absl::MutexLock lock(&mutex_);
    for (const pipeline::StageStats& now : stages) {
      StageSeries& series = Series(now.name);
      if (new_pass) series.last = {};
      AddGrowth(*series.busy, now.busy_seconds, series.last.busy_seconds);
      AddGrowth(*series.starved, now.starved_seconds,
                series.last.starved_seconds);
      AddGrowth(*series.blocked, now.blocked_seconds,
                series.last.blocked_seconds);
      series.queue->Set(static_cast<double>(now.queue_length));
      series.last = now;
    }
  }

  void OnRows(int64_t rows, int64_t bytes) override {
    rows_->Add(static_cast<double>(rows));
    bytes_->Add(static_cast<double>(bytes));
  }

 private:
  static void AddGrowth(Counter& counter, double now, double last) {
    counter.Add(std::max(0.0, now - last));
  }

  StageSeries& Series(const std::string& stage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [found, is_new] = stages_.try_emplace(stage);
    if (!is_new) return found->second;
    Labels labels = labels_;
    labels["stage"] = stage;
    StageSeries& series = found->second;
    series.busy =
        registry_.NewCounter("hearth_stage_busy_seconds_total",
                             "Seconds that a stage's threads worked.", labels);
    series.starved = registry_.NewCounter(
        "hearth_stage_starved_seconds_total",
        "Seconds that a stage's threads waited for input.", labels);
    series.blocked = registry_.NewCounter(
        "hearth_stage_blocked_seconds_total",
        "Seconds that a stage's threads waited for room in the next queue.",
        labels);
    series.queue = registry_.NewGauge(
        "hearth_stage_queue_length", "Batches waiting behind a stage.", labels);
    return series;
  }

  Registry& registry_;
  const Labels labels_;
  std::unique_ptr<Counter> batches_;
  std::unique_ptr<Counter> epochs_;
  std::unique_ptr<Gauge> loss_;
  std::unique_ptr<Counter> rows_;
  std::unique_ptr<Counter> bytes_;
  absl::Mutex mutex_;
  std::unique_ptr<Gauge> metric_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StageSeries> stages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<TrainMetrics> NewTrainMetrics(Registry& registry,
                                              const std::string& job,
                                              const std::string& strategy) {
  return std::make_unique<TrainMetricsImpl>(registry, job, strategy);
}

}  // namespace hearth::job
