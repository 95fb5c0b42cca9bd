#include "engine/job/memory/batch_measurement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/manifest.h"
#include "engine/store/strict_json.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampling.h"
#include "nlohmann/json.hpp"

namespace hearth::job {
namespace {

using nlohmann::ordered_json;
using sample::BatchShape;
using strategy::BatchBound;
using strategy::Pass;

// Version of the file and of its meaning.
constexpr int kFormat = 3;
constexpr uint64_t kMaxFileBytes = 1 << 20;

// Everything that the result depends on.
ordered_json KeyOf(const MeasuredPasses& of) {
  const Pass& any = of.passes.front();
  ordered_json key = {{"dataset", of.dataset.manifest().fingerprint},
                      {"fanouts", any.sampler.fanouts},
                      {"data_seed", any.sampler.data_seed},
                      {"batch_size", any.batch_size},
                      {"shards", any.shards}};
  if (!any.sampler.layer_nodes.empty()) {
    key["layer_nodes"] = any.sampler.layer_nodes;
  }
  if (!any.sampler.fanouts_of.empty()) {
    key["fanouts_of"] = any.sampler.fanouts_of;
  }
  if (any.sampler.once) key["once"] = true;
  if (any.window.is_part()) {
    key["window"] = {any.window.first, any.window.all};
  }
  // An untyped graph has one split, so that its seeds follow from the dataset.
  if (of.dataset.manifest().is_typed()) {
    key["target"] = of.dataset.target_type();
  }
  for (const Pass& pass : of.passes) {
    ordered_json& entry = key["passes"].emplace_back(ordered_json(
        {{"epoch_key", pass.epoch_key}, {"seeds", pass.order->size()}}));
    if (const std::string order = pass.order->identity(); !order.empty()) {
      entry["order"] = order;
    }
  }
  return key;
}

ordered_json ToJson(const BatchShape& shape) {
  ordered_json relations = ordered_json::array();
  for (const sample::RelationEnds& ends : shape.relations) {
    relations.push_back({ends.sources, ends.destinations, ends.larger_ends,
                         ends.most_sources, ends.most_destinations});
  }
  return {{"nodes", shape.nodes},
          {"edges", shape.edges},
          {"relations", relations},
          {"listed_edges", shape.listed_edges},
          {"types_per_node", shape.types_per_node}};
}

std::string Serialize(const ordered_json& key, const BatchBound& measured) {
  return store::SealJson({{"format", kFormat},
                          {"key", key},
                          {"largest", ToJson(measured.largest)},
                          {"likely", ToJson(measured.likely)}}) +
         "\n";
}

// Trusts its argument: files are sealed.
BatchShape FromJson(const nlohmann::json& json) {
  std::vector<sample::RelationEnds> relations;
  for (const auto& ends :
       json.value("relations", std::vector<std::array<int64_t, 5>>())) {
    relations.push_back({.sources = ends[0],
                         .destinations = ends[1],
                         .larger_ends = ends[2],
                         .most_sources = ends[3],
                         .most_destinations = ends[4]});
  }
  return {.nodes = json.value("nodes", std::vector<int64_t>()),
          .edges = json.value("edges", std::vector<int64_t>()),
          .relations = std::move(relations),
          .listed_edges = json.value("listed_edges", int64_t{0}),
          .types_per_node = json.value("types_per_node", int64_t{0})};
}

// Reads `measured` from `text`; false if it is not an intact file of this key.
bool Parse(absl::string_view text, const ordered_json& key,
           BatchBound& measured) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const auto json = store::OpenSealedJson(text);
  if (!json.ok() || json->value("format", 0) != kFormat ||
      !json->contains("key") || (*json)["key"] != nlohmann::json(key) ||
      !json->contains("largest") || !json->contains("likely")) {
    return false;
  }
  const size_t num_layers = measured.bound.edges.size();
  BatchShape largest = FromJson((*json)["largest"]);
  BatchShape likely = FromJson((*json)["likely"]);
  for (const BatchShape* shape : {&largest, &likely}) {
    if (shape->edges.size() != num_layers ||
        shape->nodes.size() != num_layers + 1 ||
        shape->relations.size() != measured.bound.relations.size()) {
      return false;
    }
  }
  measured.largest = std::move(largest);
  measured.likely = std::move(likely);
  return true;
}

// Like strategy::GraphSizeOf, without opening the topology.
sample::GraphSize GraphSizeOf(const store::Manifest& manifest) {
  sample::GraphSize size;
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    size.num_nodes += nodes.num_nodes;
    if (!manifest.is_typed()) continue;
    std::vector<size_t>& into = size.edge_types_into.emplace_back();
    for (size_t type = 0; type < manifest.edge_types.size(); ++type) {
      if (nodes.num_nodes > 0 &&
          manifest.edge_types[type].destination_type == nodes.name) {
        into.push_back(type);
      }
    }
  }
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    size.num_edges += edges.num_edges;
  }
  return size;
}

}  // namespace

BatchBound BoundBatches(const MeasuredPasses& of) {
  BatchBound result;
  const store::Manifest& manifest = of.dataset.manifest();
  for (const Pass& pass : of.passes) {
    sample::Enlarge(
        sample::ShapeBound(pass.sampler,
                           strategy::MostSeeds(pass, pass.order->size()),
                           GraphSizeOf(manifest)),
        result.bound);
  }
  result.largest = result.bound;
  result.likely = result.bound;
  return result;
}

BatchMeasurement::BatchMeasurement(io::FileSystem& files, const Clock& clock,
                                   std::string folder)
    : files_(files), clock_(clock), folder_(std::move(folder)) {}

absl::StatusOr<BatchBound> BatchMeasurement::Measure(
    const MeasuredPasses& of, const strategy::PipelineOptions& pipeline,
    std::stop_token stop) {
  BatchBound result = BoundBatches(of);
  const ordered_json key = KeyOf(of);
  Sha256 digest;
  digest.Update(absl::StrCat("batches ", kFormat, " ", key.dump()));
  const std::string path = io::JoinPath(
      folder_, absl::StrCat("batches-", of.dataset.manifest().fingerprint, "-",
                            digest.HexDigest().substr(0, 32), ".json"));
  const absl::StatusOr<std::string> kept =
      io::ReadWholeFile(files_, path, kMaxFileBytes);
  if (kept.ok() && Parse(*kept, key, result)) return result;
  result.largest = {};
  result.likely = {};
  HEARTH_RETURN_IF_ERROR(
      pipeline.topology == strategy::TopologyPlace::kSlabs
          ? MeasureInSlabs(of, pipeline.samplers, stop, result)
          : MeasureMapped(of, pipeline.samplers, stop, result));
  HEARTH_RETURN_IF_ERROR(Write(path, Serialize(key, result)));
  return result;
}

absl::Status BatchMeasurement::MeasureMapped(const MeasuredPasses& of,
                                             int threads,
                                             const std::stop_token& stop,
                                             BatchBound& result) const {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      of.dataset.LoadTopology(store::Residency::kMapped, stop));
  for (const Pass& pass : of.passes) {
    HEARTH_ASSIGN_OR_RETURN(
        const BatchBound measured,
        strategy::MeasureBatches(pass, pass.order->Epoch(pass.epoch_key),
                                 strategy::SampleSource{*topology, of.labels},
                                 {.clock = clock_, .threads = threads}, stop));
    sample::Enlarge(measured.largest, result.largest);
    sample::Enlarge(measured.likely, result.likely);
  }
  return absl::OkStatus();
}

absl::Status BatchMeasurement::MeasureInSlabs(const MeasuredPasses& of,
                                              int threads,
                                              const std::stop_token& stop,
                                              BatchBound& result) {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  HEARTH_ASSIGN_OR_RETURN(
      const std::vector<BatchBound> measured,
      strategy::MeasureBatches(
          of.passes,
          strategy::SlabSource{
              .dataset = of.dataset,
              .files = files_,
              .scratch_folder = io::JoinPath(
                  folder_, absl::StrCat("slabs-", next_scratch_++))},
          {.clock = clock_, .threads = threads}, stop));
  for (const BatchBound& of_pass : measured) {
    sample::Enlarge(of_pass.largest, result.largest);
    sample::Enlarge(of_pass.likely, result.likely);
  }
  return absl::OkStatus();
}

absl::Status BatchMeasurement::Write(const std::string& path,
                                     const std::string& text) {
  absl::MutexLock lock(&mutex_);
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return io::WriteFileAtomically(files_, path, text);
}

}  // namespace hearth::job
