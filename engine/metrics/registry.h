#ifndef HEARTH_ENGINE_METRICS_REGISTRY_H_
#define HEARTH_ENGINE_METRICS_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hearth::metrics {

/// Labels of a series: value by name.
using Labels = std::map<std::string, std::string>;

/// Handle of a time series, which exists as long as it has handles.
/// Thread-safe.
class Counter {
 public:
  virtual ~Counter() = default;
  /// REQUIRES: amount >= 0.
  virtual void Add(double amount) = 0;
};

/// See Counter.
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
};

/// See Counter.
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
  /// Adds observations that were counted elsewhere: counts[i] observations in
  /// bucket i (the last bucket is above all bounds), of values that sum to
  /// `sum`. REQUIRES: one count more than there are bounds, none negative.
  virtual void ObserveCounts(const std::vector<double>& counts, double sum) = 0;
};

/// Registration of a function that is called before each collection. Destroying
/// it ends the registration and waits for a call in progress. Thread-safe.
class CollectHook {
 public:
  virtual ~CollectHook() = default;
};

/// Makes time series, over prometheus-cpp. Names follow Prometheus' rules:
/// prefix "hearth_", base units, counters end in "_total". Asking again for the
/// same name and labels while a handle lives shares the series. REQUIRES: one
/// help text and one type per name. Thread-safe; must outlive its handles.
class Registry {
 public:
  virtual ~Registry() = default;

  virtual std::unique_ptr<Counter> NewCounter(const std::string& name,
                                              const std::string& help,
                                              const Labels& labels) = 0;
  virtual std::unique_ptr<Gauge> NewGauge(const std::string& name,
                                          const std::string& help,
                                          const Labels& labels) = 0;
  virtual std::unique_ptr<Histogram> NewHistogram(
      const std::string& name, const std::string& help, const Labels& labels,
      const std::vector<double>& bounds) = 0;

  /// Calls `hook` before each collection, for series that are looked up rather
  /// than counted, such as memory. `hook` may make and destroy series but no
  /// hooks, and must not collect.
  virtual std::unique_ptr<CollectHook> NewCollectHook(
      std::function<void()> hook) = 0;

  /// All series in Prometheus' text format.
  virtual std::string Text() const = 0;
};

/// An empty registry.
std::unique_ptr<Registry> NewRegistry();

}  // namespace hearth::metrics

#endif  // HEARTH_ENGINE_METRICS_REGISTRY_H_
