#include "engine/job/batch_measurement.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/manifest.h"
#include "engine/store/residency.h"
#include "engine/store/sealed_json.h"
#include "engine/strategy/largest_batch.h"
#include "engine/strategy/sample_stage.h"
#include "nlohmann/json.hpp"

namespace hearth::job {
namespace {

using nlohmann::ordered_json;
using sample::BatchShape;
using strategy::BatchBound;
using strategy::Pass;

// The version of the file and of its meaning.
constexpr int kFormat = 1;
constexpr uint64_t kMaxFileBytes = 1 << 20;

// All that the result depends on.
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
  // Else there is one split, and seeds follow from the dataset.
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
  return {{"nodes", shape.nodes},
          {"edges", shape.edges},
          {"listed_edges", shape.listed_edges},
          {"types_per_node", shape.types_per_node}};
}

std::string Serialize(const ordered_json& key, const BatchShape& largest) {
  return store::SealJson({{"format", kFormat},
                          {"key", key},
                          {"largest", ToJson(largest)}}) +
         "\n";
}

// The largest batch that `text` tells; an empty shape if it is not a file of
// this key, whole.
BatchShape Parse(absl::string_view text, const ordered_json& key,
                 size_t num_layers) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const auto json = store::OpenSealedJson(text);
  if (!json.ok() || json->value("format", 0) != kFormat ||
      !json->contains("key") || (*json)["key"] != nlohmann::json(key) ||
      !json->contains("largest")) {
    return {};
  }
  // Sealed, so as it was written.
  const auto& largest = (*json)["largest"];
  BatchShape shape = {
      .nodes = largest.value("nodes", std::vector<int64_t>()),
      .edges = largest.value("edges", std::vector<int64_t>()),
      .listed_edges = largest.value("listed_edges", int64_t{0}),
      .types_per_node = largest.value("types_per_node", int64_t{0})};
  if (shape.edges.size() != num_layers ||
      shape.nodes.size() != num_layers + 1) {
    return {};
  }
  return shape;
}

// As strategy::GraphSizeOf, without opening the topology.
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
  return result;
}

BatchMeasurement::BatchMeasurement(io::FileSystem& files, const Clock& clock,
                                   std::string folder)
    : files_(files), clock_(clock), folder_(std::move(folder)) {}

absl::StatusOr<BatchBound> BatchMeasurement::Measure(const MeasuredPasses& of,
                                                     int threads,
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
  if (kept.ok()) {
    result.largest = Parse(*kept, key, result.bound.edges.size());
    if (!result.largest.nodes.empty()) return result;
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      of.dataset.LoadTopology(store::Residency::kMapped, stop));
  result.largest = {};
  for (const Pass& pass : of.passes) {
    HEARTH_ASSIGN_OR_RETURN(
        const BatchBound measured,
        strategy::MeasureBatches(pass, pass.order->Epoch(pass.epoch_key),
                                 {*topology, of.labels},
                                 {.clock = clock_, .threads = threads}, stop));
    sample::Enlarge(measured.largest, result.largest);
  }
  HEARTH_RETURN_IF_ERROR(Write(path, Serialize(key, result.largest)));
  return result;
}

absl::Status BatchMeasurement::Write(const std::string& path,
                                     const std::string& text) {
  absl::MutexLock lock(&mutex_);
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return io::WriteFileAtomically(files_, path, text);
}

}  // namespace hearth::job
