#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_

#include <cstdint>
#include <vector>

#include "engine/plan/access_trace.h"

namespace hearth::strategy {

/// How often nodes are needed in all N batches of a trace, forecast from n of
/// them that are spread evenly over it.
///
/// Why a model: who ranks nodes by the batches of a sample, and counts what the
/// most popular ones catch in the same batches, takes luck for popularity and
/// promises too much; who counts in other batches than those he ranked by
/// promises too little, since all N batches rank better than n do. Nor do the
/// distinct nodes of n batches tell those of more.
///
/// The model: batches are exchangeable, and a node is in each of them with a
/// probability p of its own. What is known is how many nodes were in k of n
/// batches, k = 0 .. n (nodes that were in none count, too). The distribution
/// of p is the non-parametric maximum likelihood estimate over a fine grid
/// (Laird, 1978), by expectation maximization. It gives how many nodes will be
/// in K of N batches, and, a node that is in K of N being in j of a segment's s
/// with hypergeometric probability, what memory, disk caches and packs of any
/// segment size hold: also of segments that have more batches than the sample.
///
/// The model does not know that batches differ (those of validation, say):
/// they share a segment as if they were mixed. Nodes that no sampled batch has
/// are as likely as the estimate makes of nodes that a single one has.
///
/// Pure; thread-safe once made.
class PopularityModel {
 public:
  /// `counts` are those of `sampled` batches of `total`. REQUIRES: 1 <= sampled
  /// <= total.
  PopularityModel(const plan::AccessCounts& counts, int64_t sampled,
                  int64_t total);

  /// Expected rows of all batches, by where they are found.
  struct Rows {
    /// Accesses to each level; their sum is num_accesses().
    double cpu = 0;
    double disk = 0;
    double packed = 0;
    /// Distinct rows in the disk caches of all segments.
    double disk_cache = 0;
  };

  /// With `memory_rows` rows in memory, the most popular ones, and segments of
  /// `segment_size` batches that have `max_cache_rows` rows of the disk cache
  /// together. REQUIRES: 1 <= segment_size <= total.
  Rows ForecastRows(int64_t memory_rows, int64_t segment_size,
                    int64_t max_cache_rows) const;

  /// Accesses of all batches.
  double num_accesses() const { return num_accesses_; }
  int64_t num_batches() const { return total_; }

  /// Memory that it holds at most for `total` batches.
  static uint64_t MemoryBytes(int64_t total);

 private:
  void Extrapolate(const std::vector<double>& grid,
                   const std::vector<double>& nodes);
  // nodes_[k] without the most popular `memory_rows` nodes; `held` gets their
  // accesses.
  std::vector<double> BelowMemory(double memory_rows, double& held) const;
  // Nodes of one segment that are in j of its batches, for all j.
  std::vector<double> InSegment(const std::vector<double>& nodes,
                                int64_t segment_size) const;
  double LogChoose(int64_t n, int64_t k) const {
    return log_factorials_[n] - log_factorials_[k] - log_factorials_[n - k];
  }

  int64_t total_;
  double num_accesses_ = 0;
  // [total + 1]
  std::vector<double> log_factorials_;
  // Nodes that are in k of all batches, for all k.
  std::vector<double> nodes_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_POPULARITY_MODEL_H_
