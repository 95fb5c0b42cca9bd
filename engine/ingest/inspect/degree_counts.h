#ifndef HEARTH_ENGINE_INGEST_INSPECT_DEGREE_COUNTS_H_
#define HEARTH_ENGINE_INGEST_INSPECT_DEGREE_COUNTS_H_

#include <cstdint>
#include <map>
#include <vector>

namespace hearth::ingest {

/// Counts the nodes of each degree, exactly. Small whatever the graph: degrees
/// that are far apart are few, as edges are. Single-owner.
class DegreeCounts {
 public:
  void Add(uint64_t degree);

  /// Nodes of that degree.
  uint64_t NumOf(uint64_t degree) const;
  /// 0 without nodes.
  double Mean() const;
  /// The least degree that `percent` of 100 nodes do not exceed; 0 without
  /// nodes. 0 < percent <= 100.
  uint64_t Percentile(uint64_t percent) const;

 private:
  uint64_t num_nodes_ = 0;
  uint64_t num_edges_ = 0;
  /// Counts of degrees below 2^12.
  std::vector<uint64_t> low_;
  std::map<uint64_t, uint64_t> high_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_DEGREE_COUNTS_H_
