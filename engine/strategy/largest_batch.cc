#include "engine/strategy/largest_batch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {
namespace {

// Layers that kept all their neighbors were listed, too.
void CountAllListed(sample::BatchShape& shape) {
  for (const int64_t edges : shape.edges) {
    shape.listed_edges = std::max(shape.listed_edges, edges);
  }
}

}  // namespace

sample::GraphSize GraphSizeOf(const store::LoadedTopology& topology) {
  sample::GraphSize size = {.num_nodes = topology.nodes().num_nodes()};
  if (topology.is_typed()) {
    size.edge_types_into.resize(topology.nodes().num_types());
  }
  for (const store::Relation& relation : topology.relations()) {
    size.num_edges += relation.topology.num_edges();
    // A type without nodes has no edges to sample.
    if (!topology.is_typed() || relation.topology.num_nodes() == 0) continue;
    size.edge_types_into[topology.nodes().TypeOf(relation.first_destination)]
        .push_back(relation.type);
  }
  return size;
}

absl::StatusOr<BatchBound> MeasureBatches(const Pass& pass,
                                          absl::Span<const store::NodeId> seeds,
                                          const SampleSource& source,
                                          const DryRun& run,
                                          std::stop_token stop) {
  const auto num_seeds = static_cast<int64_t>(seeds.size());
  const int64_t num_shards =
      NumBatches(num_seeds, pass.batch_size) * pass.shards;
  const int64_t measured = std::min(num_shards, run.most_batches);
  BatchSpread spread;
  BatchBound result;
  result.bound = sample::ShapeBound(pass.sampler, MostSeeds(pass, num_seeds),
                                    GraphSizeOf(source.topology));
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {SampleStage(pass, seeds, source, {.threads = run.threads})}, "measure",
      run.clock);
  HEARTH_RETURN_IF_ERROR(pipeline->Run(
      measured,
      [&](int64_t number) {
        // Shard 0, and then one in num_shards / measured.
        return std::make_unique<SampledBatch>(number * (num_shards / measured) +
                                              number * (num_shards % measured) /
                                                  measured);
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        spread.Add(sample::ShapeOf(static_cast<SampledBatch&>(*item).sample()),
                   MostSeeds(pass, num_seeds));
        return absl::OkStatus();
      },
      std::move(stop)));
  result.largest = spread.largest();
  result.likely = spread.Likely();
  if (!pass.sampler.layer_nodes.empty()) {
    CountAllListed(result.largest);
    CountAllListed(result.likely);
  }
  return result;
}

}  // namespace hearth::strategy
