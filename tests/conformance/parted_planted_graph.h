#ifndef HEARTH_TESTS_CONFORMANCE_PARTED_PLANTED_GRAPH_H_
#define HEARTH_TESTS_CONFORMANCE_PARTED_PLANTED_GRAPH_H_

#include <memory>

#include "engine/plan/partition/partition.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"

namespace hearth::testing {

/// A planted graph in parts, each within a community.
struct PartedPlantedGraph {
  std::shared_ptr<const plan::Partition> partition;
  /// The training nodes in the order of the parts, with data seed 3.
  std::unique_ptr<sample::SeedOrder> order;

  static PartedPlantedGraph Of(const store::Dataset& dataset);
};

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_PARTED_PLANTED_GRAPH_H_
