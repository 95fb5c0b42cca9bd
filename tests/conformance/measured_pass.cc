#include "tests/conformance/measured_pass.h"

#include <cstdint>
#include <memory>
#include <stop_token>

#include "engine/base/clock.h"
#include "engine/store/labels.h"
#include "engine/store/residency.h"
#include "engine/store/topology.h"
#include "engine/strategy/largest_batch.h"
#include "gtest/gtest.h"

namespace hearth::testing {

strategy::Pass Measured(const store::Dataset& dataset, strategy::Pass pass) {
  const auto labels = dataset.LoadLabels();
  EXPECT_TRUE(labels.ok()) << labels.status();
  const auto topology = dataset.LoadTopology(store::Residency::kMapped);
  EXPECT_TRUE(topology.ok()) << topology.status();
  strategy::Pass first = pass;
  first.epoch_key = 0;
  const auto batches = strategy::MeasureBatches(
      first, first.order->Epoch(0), {**topology, *labels},
      {.clock = Clock::Real()}, std::stop_token());
  EXPECT_TRUE(batches.ok()) << batches.status();
  pass.batches = *batches;
  return pass;
}

}  // namespace hearth::testing
