#include "tests/conformance/suites.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::testing {

absl::Span<plan::PlanStore* const> DataDisks(const std::string& folder) {
  constexpr int kDisks = 3;
  static auto& stores =
      *new std::map<std::string, std::vector<plan::PlanStore*>>();
  std::vector<plan::PlanStore*>& disks = stores[folder];
  while (disks.size() < kDisks) {
    disks.push_back(new plan::PlanStore(
        io::FileSystem::Posix(), Clock::Real(),
        {.folder = absl::StrCat(folder, "_disk", disks.size())}));
  }
  return disks;
}

namespace {

// A multiple of the number of communities: node i is in community i %
// communities.
constexpr int64_t kParts = 12;

}  // namespace

PartedPlantedGraph PartedPlantedGraph::Of(const store::Dataset& dataset) {
  const auto topology = *dataset.LoadTopology(store::Residency::kMemory);
  const std::vector<store::NodeId> train = dataset.LoadSplit()->train;
  std::vector<uint16_t> parts;
  for (int64_t node = 0; node < topology->view().num_nodes(); ++node) {
    parts.push_back(static_cast<uint16_t>(node % kParts));
  }
  std::vector<uint16_t> train_parts;
  for (const store::NodeId node : train) train_parts.push_back(parts[node]);
  return {.partition = std::make_shared<MemoryPartition>(
              topology->view(), std::move(parts), train),
          .order = sample::NewPartitionOrder(train, {.parts = train_parts,
                                                     .parts_per_macro_batch = 3,
                                                     .partition = "planted",
                                                     .data_seed = 3})};
}

}  // namespace hearth::testing
