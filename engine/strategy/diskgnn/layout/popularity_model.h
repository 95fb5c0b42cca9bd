#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_

#include <cstdint>
#include <vector>

#include "engine/plan/access_trace.h"

namespace hearth::strategy {

/// Forecasts how often nodes are needed in all N batches of a trace, from n
/// sampled batches spread evenly over it.
///
/// Why a model: ranking nodes by sampled batches, and counting the hits of the
/// most popular ones in the same batches, takes luck for popularity and
/// promises too much; counting them in other batches promises too little, since
/// N batches rank better than n. Nor can distinct nodes of more batches be read
/// off those of n.
///
/// The model: batches are exchangeable, and a node is in each of them with a
/// probability p of its own. The sample gives the number of nodes in k of n
/// batches, k = 0 .. n (nodes in none included). The distribution of p is the
/// non-parametric maximum likelihood estimate over a fine grid (Laird, 1978),
/// by expectation maximization. It gives the number of nodes in K of N batches.
/// A node in K of N batches is in j of a segment's s with hypergeometric
/// probability; from this follow the rows of memory, disk caches and packs for
/// any segment size, also for segments with more batches than the sample.
///
/// Limits: the model does not know that batches differ (validation, say), and
/// treats segments as random mixtures of batches. For nodes in no sampled
/// batch, the estimate relies on nodes in a single one.
///
/// Pure; thread-safe once made.
class PopularityModel {
 public:
  /// `counts`: accesses in `sampled` batches of `total`. REQUIRES: 1 <= sampled
  /// <= total.
  PopularityModel(const plan::AccessCounts& counts, int64_t sampled,
                  int64_t total);

  /// The same, of the number of nodes in k = 0 .. n of the n sampled batches.
  /// REQUIRES: 2 <= seen.size() <= total + 1.
  PopularityModel(const std::vector<double>& seen, int64_t total);

  /// Expected rows of all batches, by level.
  struct Rows {
    /// Accesses to each level; their sum is num_accesses().
    double cpu = 0;
    double disk = 0;
    double packed = 0;
    /// Distinct rows in the disk caches of all segments.
    double disk_cache = 0;
  };

  /// Forecasts rows with the `memory_rows` most popular rows in memory and
  /// segments of `segment_size` batches that have at most `max_cache_rows` rows
  /// of the disk cache in all. REQUIRES: 1 <= segment_size <= total.
  Rows ForecastRows(int64_t memory_rows, int64_t segment_size,
                    int64_t max_cache_rows) const;

  /// [num_batches() + 1] number of nodes in k of all batches.
  const std::vector<double>& nodes() const { return nodes_; }

  /// Accesses of all batches.
  double num_accesses() const { return num_accesses_; }
  int64_t num_batches() const { return total_; }

  /// Memory that a model of `total` batches holds at most.
  static uint64_t MemoryBytes(int64_t total);

 private:
  void Extrapolate(const std::vector<double>& grid,
                   const std::vector<double>& nodes);
  // nodes_ without the `memory_rows` most popular nodes, whose accesses `held`
  // gets.
  std::vector<double> BelowMemory(double memory_rows, double& held) const;
  // [segment_size + 1] number of nodes in j batches of one segment.
  std::vector<double> InSegment(const std::vector<double>& nodes,
                                int64_t segment_size) const;
  double LogChoose(int64_t n, int64_t k) const {
    return log_factorials_[n] - log_factorials_[k] - log_factorials_[n - k];
  }

  int64_t total_;
  double num_accesses_ = 0;
  // [total + 1] logarithms of factorials.
  std::vector<double> log_factorials_;
  // [total + 1] number of nodes in k of all batches.
  std::vector<double> nodes_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_
