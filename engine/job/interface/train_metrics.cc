#include "engine/job/interface/train_metrics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/pipeline.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

using metrics::Counter;
using metrics::Gauge;
using metrics::Labels;
using metrics::Registry;

// Series of one stage, and the values last added to them.
struct StageSeries {
  std::unique_ptr<Counter> busy;
  std::unique_ptr<Counter> starved;
  std::unique_ptr<Counter> blocked;
  std::unique_ptr<Gauge> queue;
  pipeline::StageStats last;
};

// One level of the cache.
struct LevelSeries {
  std::unique_ptr<Counter> hits;
  std::unique_ptr<Counter> misses;
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
    bytes_read_ =
        registry.NewCounter("hearth_feature_read_bytes_total",
                            "Bytes read from storage for batches.", labels_);
    read_ops_ = registry.NewCounter("hearth_feature_read_operations_total",
                                    "Reads from storage for batches.", labels_);
    io_wait_ = registry.NewCounter(
        "hearth_io_wait_seconds_total",
        "Seconds that threads waited for reads, with nothing else to do.",
        labels_);
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
      // The metric is known only from the first epoch on.
      Labels labels = labels_;
      labels["metric"] = train::Name(epoch.metric);
      metric_ = registry_.NewGauge(
          "hearth_train_valid_metric",
          "Metric on the validation nodes after the last epoch.", labels);
    }
    metric_->Set(*epoch.valid_metric);
  }

  void OnPass(const strategy::PassReport& pass, bool new_pass) override {
    absl::MutexLock lock(&mutex_);
    if (new_pass) last_ = {};
    rows_->Add(Growth(pass.rows_needed, last_.rows_needed));
    bytes_->Add(Growth(pass.bytes_needed, last_.bytes_needed));
    bytes_read_->Add(Growth(pass.bytes_read, last_.bytes_read));
    read_ops_->Add(Growth(pass.read_ops, last_.read_ops));
    io_wait_->Add(Growth(pass.io_wait_seconds, last_.io_wait_seconds));
    AddLevels(pass);
    AddLists(pass);
    for (const pipeline::StageStats& stage : pass.stages) {
      AddStage(stage, new_pass);
    }
    last_ = pass;
  }

  void OnComparing(bool now) override {
    absl::MutexLock lock(&mutex_);
    if (comparing_ == nullptr) {
      comparing_ = registry_.NewGauge(
          "hearth_train_comparing",
          "1 while epochs are trained without the job's history, to compare; "
          "0 otherwise.",
          labels_);
    }
    comparing_->Set(now ? 1 : 0);
  }

 private:
  template <typename Number>
  static double Growth(Number now, Number last) {
    return std::max(0.0, static_cast<double>(now) - static_cast<double>(last));
  }

  template <typename Number>
  static double Growth(std::optional<Number> now, std::optional<Number> last) {
    return Growth(now.value_or(0), last.value_or(0));
  }

  // Adds rows found and not found at each level, from the first level asked.
  void AddLevels(const strategy::PassReport& pass)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t misses = pass.rows_needed;
    int64_t last_misses = last_.rows_needed;
    for (size_t i = 0; i < pass.hits.size(); ++i) {
      const int64_t hits = pass.hits[i].rows;
      const int64_t last_hits = i < last_.hits.size() ? last_.hits[i].rows : 0;
      misses -= hits;
      last_misses -= last_hits;
      LevelSeries& series = Level(pass.hits[i].level);
      series.hits->Add(Growth(hits, last_hits));
      series.misses->Add(Growth(misses, last_misses));
    }
  }

  // Adds neighbor lists found and not found in each neighbor cache.
  void AddLists(const strategy::PassReport& pass)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t misses = pass.lists_read.value_or(0);
    int64_t last_misses = last_.lists_read.value_or(0);
    for (size_t i = pass.list_hits.size(); i-- > 0;) {
      const int64_t hits = pass.list_hits[i].lists;
      const int64_t last_hits =
          i < last_.list_hits.size() ? last_.list_hits[i].lists : 0;
      LevelSeries& series = ListLevel(pass.list_hits[i].level);
      series.hits->Add(Growth(hits, last_hits));
      series.misses->Add(Growth(misses, last_misses));
      // A row that was found at this level was not found at the level before.
      misses += hits;
      last_misses += last_hits;
    }
  }

  LevelSeries& ListLevel(const std::string& level)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [found, is_new] = list_levels_.try_emplace(level);
    if (is_new) {
      Labels labels = labels_;
      labels["level"] = level;
      found->second.hits = registry_.NewCounter(
          "hearth_neighbor_cache_hits_total",
          "Lookups of neighbor lists that found the list in a neighbor cache.",
          labels);
      found->second.misses = registry_.NewCounter(
          "hearth_neighbor_cache_misses_total",
          "Lookups of neighbor lists that did not find the list in a neighbor "
          "cache.",
          labels);
    }
    return found->second;
  }

  LevelSeries& Level(const std::string& level)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [found, is_new] = levels_.try_emplace(level);
    if (is_new) {
      Labels labels = labels_;
      labels["level"] = level;
      found->second.hits =
          registry_.NewCounter("hearth_cache_hits_total",
                               "Rows that a level of the cache held.", labels);
      found->second.misses = registry_.NewCounter(
          "hearth_cache_misses_total",
          "Rows that a level of the cache was asked for and did not hold.",
          labels);
    }
    return found->second;
  }

  void AddStage(const pipeline::StageStats& now, bool new_pass)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    StageSeries& series = Series(now.name);
    if (new_pass) series.last = {};
    series.busy->Add(Growth(now.busy_seconds, series.last.busy_seconds));
    series.starved->Add(
        Growth(now.starved_seconds, series.last.starved_seconds));
    series.blocked->Add(
        Growth(now.blocked_seconds, series.last.blocked_seconds));
    series.queue->Set(static_cast<double>(now.queue_length));
    series.last = now;
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
  std::unique_ptr<Counter> bytes_read_;
  std::unique_ptr<Counter> read_ops_;
  std::unique_ptr<Counter> io_wait_;
  absl::Mutex mutex_;
  // The pass as of the last call.
  strategy::PassReport last_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, LevelSeries> levels_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, LevelSeries> list_levels_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Gauge> metric_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Gauge> comparing_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StageSeries> stages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<TrainMetrics> NewTrainMetrics(Registry& registry,
                                              const std::string& job,
                                              const std::string& strategy) {
  return std::make_unique<TrainMetricsImpl>(registry, job, strategy);
}

}  // namespace hearth::job
