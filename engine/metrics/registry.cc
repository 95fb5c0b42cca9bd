// Locks: `mutex_` guards which series exist and how many handles share each;
// values are atomics of prometheus-cpp. `hooks_mutex_` is held while hooks run
// and is taken before `mutex_`, never after.
#include "engine/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::metrics {
namespace {

// The series of one type (prometheus::Counter, ...). Thread-safe.
template <typename Metric>
class SeriesSet {
 public:
  // A share in a series; the series ends with its last share.
  class Share {
   public:
    Share(SeriesSet& set, Metric& metric, std::string name, Labels labels)
        : set_(set),
          metric_(metric),
          name_(std::move(name)),
          labels_(std::move(labels)) {}
    ~Share() { set_.Release(name_, labels_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    Metric& metric() { return metric_; }

   private:
    SeriesSet& set_;
    Metric& metric_;
    const std::string name_;
    const Labels labels_;
  };

  template <typename... Args>
  std::unique_ptr<Share> Acquire(prometheus::Family<Metric>& family,
                                 const std::string& name, const Labels& labels,
                                 const Args&... args) {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[{name, labels}];
    if (entry.shares++ == 0) {
      entry.family = &family;
      entry.metric = &family.Add(labels, args...);
    }
    return std::make_unique<Share>(*this, *entry.metric, name, labels);
  }

 private:
  struct Entry {
    prometheus::Family<Metric>* family = nullptr;
    Metric* metric = nullptr;
    int shares = 0;
  };

  void Release(const std::string& name, const Labels& labels) {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find({name, labels});
    if (--found->second.shares > 0) return;
    found->second.family->Remove(found->second.metric);
    entries_.erase(found);
  }

  absl::Mutex mutex_;
  std::map<std::pair<std::string, Labels>, Entry> entries_
      ABSL_GUARDED_BY(mutex_);
};

class CounterHandle final : public Counter {
 public:
  using Share = SeriesSet<prometheus::Counter>::Share;
  explicit CounterHandle(std::unique_ptr<Share> share)
      : share_(std::move(share)) {}
  void Add(double amount) override { share_->metric().Increment(amount); }

 private:
  const std::unique_ptr<Share> share_;
};

class GaugeHandle final : public Gauge {
 public:
  using Share = SeriesSet<prometheus::Gauge>::Share;
  explicit GaugeHandle(std::unique_ptr<Share> share)
      : share_(std::move(share)) {}
  void Set(double value) override { share_->metric().Set(value); }

 private:
  const std::unique_ptr<Share> share_;
};

class HistogramHandle final : public Histogram {
 public:
  using Share = SeriesSet<prometheus::Histogram>::Share;
  explicit HistogramHandle(std::unique_ptr<Share> share)
      : share_(std::move(share)) {}
  void Observe(double value) override { share_->metric().Observe(value); }
  void ObserveCounts(const std::vector<double>& counts, double sum) override {
    share_->metric().ObserveMultiple(counts, sum);
  }

 private:
  const std::unique_ptr<Share> share_;
};

// The series, collected after the hooks have run.
class Source final {
 public:
  std::vector<prometheus::MetricFamily> Collect() const {
    RunHooks();
    return series_.Collect();
  }

  prometheus::Registry& series() { return series_; }

  void AddHook(const std::function<void()>* hook) {
    absl::MutexLock lock(&hooks_mutex_);
    hooks_.insert(hook);
  }

  void RemoveHook(const std::function<void()>* hook) {
    absl::MutexLock lock(&hooks_mutex_);
    hooks_.erase(hook);
  }

 private:
  void RunHooks() const {
    absl::MutexLock lock(&hooks_mutex_);
    for (const std::function<void()>* hook : hooks_) (*hook)();
  }

  prometheus::Registry series_;
  mutable absl::Mutex hooks_mutex_;
  std::set<const std::function<void()>*> hooks_ ABSL_GUARDED_BY(hooks_mutex_);
};

class CollectHookImpl final : public CollectHook {
 public:
  CollectHookImpl(Source& source, std::function<void()> hook)
      : source_(source), hook_(std::move(hook)) {
    source_.AddHook(&hook_);
  }
  ~CollectHookImpl() override { source_.RemoveHook(&hook_); }

 private:
  Source& source_;
  const std::function<void()> hook_;
};

class RegistryImpl final : public Registry {
 public:
  std::unique_ptr<Counter> NewCounter(const std::string& name,
                                      const std::string& help,
                                      const Labels& labels) override {
    return std::make_unique<CounterHandle>(counters_.Acquire(
        Family<prometheus::Counter>(prometheus::BuildCounter(), name, help),
        name, labels));
  }

  std::unique_ptr<Gauge> NewGauge(const std::string& name,
                                  const std::string& help,
                                  const Labels& labels) override {
    return std::make_unique<GaugeHandle>(gauges_.Acquire(
        Family<prometheus::Gauge>(prometheus::BuildGauge(), name, help), name,
        labels));
  }

  std::unique_ptr<Histogram> NewHistogram(
      const std::string& name, const std::string& help, const Labels& labels,
      const std::vector<double>& bounds) override {
    return std::make_unique<HistogramHandle>(histograms_.Acquire(
        Family<prometheus::Histogram>(prometheus::BuildHistogram(), name, help),
        name, labels, bounds));
  }

  std::unique_ptr<CollectHook> NewCollectHook(
      std::function<void()> hook) override {
    return std::make_unique<CollectHookImpl>(*source_, std::move(hook));
  }

  std::string Text() const override {
    return prometheus::TextSerializer().Serialize(source_->Collect());
  }

 private:
  template <typename Metric, typename Builder>
  prometheus::Family<Metric>& Family(Builder builder, const std::string& name,
                                     const std::string& help) {
    return builder.Name(name).Help(help).Register(source_->series());
  }

  const std::unique_ptr<Source> source_ = std::make_unique<Source>();
  SeriesSet<prometheus::Counter> counters_;
  SeriesSet<prometheus::Gauge> gauges_;
  SeriesSet<prometheus::Histogram> histograms_;
};

}  // namespace

std::unique_ptr<Registry> NewRegistry() {
  return std::make_unique<RegistryImpl>();
}

}  // namespace hearth::metrics
