#include "engine/plan/partition/topology_scan.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/plan/partition/topology_reader.h"

namespace hearth::plan {
namespace {

constexpr int kQueueCapacity = 4;

// Windows that there can be: each but the last is full of lists, of which the
// first may be the end of one, or of neighbors. What is left over stays empty.
int64_t MostWindows(const PartitionShape& shape) {
  return shape.nodes / int64_t{ListWindow::kMaxLists - 1} +
         shape.edges / int64_t{ListWindow::kMaxNeighbors} + 2;
}

}  // namespace

int ItemsInFlight(int threads) { return 2 * kQueueCapacity + threads + 3; }

absl::Status ScanTopology(const PartitionContext& context,
                          const TopologyScan& scan) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TopologyReader> reader,
      TopologyReader::Open(context.files, context.dataset, context.run.stop));
  StageProgress progress(
      context.run, scan.stage,
      TopologyReader::TotalBytes(context.dataset.manifest()));
  std::vector<pipeline::Stage> stages;
  stages.push_back({.name = "read",
                    .width = 1,
                    .queue_capacity = kQueueCapacity,
                    .work = [&](int, pipeline::Item& item) {
                      return reader->Next(
                          static_cast<WindowItem&>(item).window);
                    }});
  stages.push_back({.name = "work",
                    .width = context.threads(),
                    .queue_capacity = kQueueCapacity,
                    .work = [&](int thread, pipeline::Item& item) {
                      return scan.work(thread, static_cast<WindowItem&>(item));
                    }});
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline(std::move(stages), "use", *context.run.clock);
  return pipeline->Run(
      MostWindows(context.shape), [&](int64_t) { return scan.make(); },
      [&](std::unique_ptr<pipeline::Item> item) {
        auto& taken = static_cast<WindowItem&>(*item);
        const ListWindow& window = taken.window;
        progress.Advance(window.size() * sizeof(int64_t) +
                         window.neighbors.size() *
                             static_cast<uint64_t>(context.id_bytes()));
        return scan.use(taken);
      },
      context.run.stop);
}

}  // namespace hearth::plan
