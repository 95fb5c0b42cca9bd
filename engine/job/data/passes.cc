#include "engine/job/data/passes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/strategy/kinds.h"

namespace hearth::job {

namespace {

template <typename Entry>
std::string TypeNames(const std::vector<Entry>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const Entry& type) {
    absl::StrAppend(out, type.name);
  });
}

// Finds the edge type of this name, or else the first with this relation.
std::optional<size_t> FindEdgeType(const store::Manifest& manifest,
                                   absl::string_view name) {
  std::optional<size_t> by_relation;
  for (size_t i = 0; i < manifest.edge_types.size(); ++i) {
    if (manifest.edge_types[i].name == name) return i;
    if (!by_relation && store::RelationOf(manifest.edge_types[i]) == name) {
      by_relation = i;
    }
  }
  return by_relation;
}

// INVALID_ARGUMENT, naming the types of a graph that has several, if `data`
// asks for layer-wise sampling.
absl::Status CheckTakesTypes(const store::Manifest& manifest,
                             const BatchOptions& data) {
  const std::string types =
      absl::StrCat("dataset ", manifest.name, " has node types ",
                   TypeNames(manifest.node_types), " and edge types ",
                   TypeNames(manifest.edge_types));
  if (!data.layer_nodes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(types, "; layer_nodes: layers are drawn of one of each"));
  }
  return absl::OkStatus();
}

// Removes unlabeled nodes from `nodes`, and adds a warning if there were any.
void Prune(absl::string_view part, const store::Labels& labels,
           std::vector<store::NodeId>& nodes,
           std::vector<std::string>& warnings) {
  const size_t all = nodes.size();
  const size_t unlabeled = std::erase_if(
      nodes, [&](store::NodeId node) { return !labels.IsLabeled(node); });
  if (unlabeled == 0) return;
  warnings.push_back(absl::StrCat(unlabeled, " of ", all, " ", part,
                                  " nodes have no label: left out"));
}

}  // namespace

absl::Status CheckTrainable(const store::Dataset& dataset,
                            const BatchOptions& data) {
  const store::Manifest& manifest = dataset.manifest();
  if (manifest.is_typed()) {
    HEARTH_RETURN_IF_ERROR(CheckTakesTypes(manifest, data));
  } else if (!data.fanouts_of.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fanouts_of: must be empty for dataset ", manifest.name,
                     ", whose edges are of one type; fanouts are its own"));
  }
  HEARTH_RETURN_IF_ERROR(FanoutsByType(manifest, data).status());
  const store::NodeTypeEntry& target =
      manifest.node_types[dataset.target_type()];
  std::string lacking;
  if (manifest.edge_types.empty()) lacking = "edges";
  const std::string of_target =
      manifest.node_types.size() == 1
          ? ""
          : absl::StrCat(" of nodes of type \"", target.name, "\"");
  if (target.train.path.empty() && !data.own_nodes.train.has_value()) {
    lacking = "training nodes" + of_target;
  }
  if (target.labels.path.empty() && data.needs_labels) {
    lacking = "labels" + of_target;
  }
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    if (!type.features.path.empty()) continue;
    lacking = manifest.node_types.size() == 1
                  ? "features"
                  : absl::StrCat("features of nodes of type \"", type.name,
                                 "\" (import it with fill-features mean)");
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "dataset ", manifest.name, " has no ", lacking, " to train with"));
}

absl::StatusOr<std::vector<std::vector<int32_t>>> FanoutsByType(
    const store::Manifest& manifest, const BatchOptions& data) {
  std::vector<std::vector<int32_t>> fanouts;
  for (const EdgeTypeFanouts& of_type : data.fanouts_of) {
    fanouts.resize(manifest.edge_types.size());
    const std::optional<size_t> found =
        FindEdgeType(manifest, of_type.edge_type);
    if (!found.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts_of: dataset ", manifest.name, " has no edge type \"",
          of_type.edge_type, "\", but ", TypeNames(manifest.edge_types)));
    }
    if (!fanouts[*found].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts_of: ", manifest.edge_types[*found].name,
          " has fan-outs already; ", of_type.edge_type, " names it again"));
    }
    fanouts[*found] = of_type.fanouts;
  }
  return fanouts;
}

absl::StatusOr<LabeledSplit> WithoutUnlabeled(store::Split split,
                                              const store::Labels& labels,
                                              const OwnNodes& own) {
  LabeledSplit labeled;
  labeled.nodes = std::move(split);
  const auto prune = [&](absl::string_view part,
                         const std::optional<NodesFile>& chosen,
                         std::vector<store::NodeId>& nodes) {
    if (chosen.has_value() || labels.width() == 0) return;
    Prune(part, labels, nodes, labeled.warnings);
  };
  prune("training", own.train, labeled.nodes.train);
  prune("validation", own.valid, labeled.nodes.valid);
  prune("test", own.test, labeled.nodes.test);
  if (labeled.nodes.train.empty()) {
    return absl::FailedPreconditionError("no training node has a label");
  }
  return labeled;
}

namespace {

// Epoch keys of validation and test, which are sampled the same way in every
// epoch; no training epoch has these keys.
constexpr uint64_t kValidationKey = UINT64_MAX;
constexpr uint64_t kTestKey = UINT64_MAX - 1;

// Nodes of clients do not follow from the dataset.
std::unique_ptr<sample::SeedOrder> Named(
    std::unique_ptr<sample::SeedOrder> order,
    const std::optional<NodesFile>& own) {
  if (!own.has_value()) return order;
  return sample::NewNamedOrder(std::move(order),
                               absl::StrCat("nodes ", own->sha256));
}

}  // namespace

PassSchedule::PassSchedule(const BatchOptions& data,
                           std::unique_ptr<sample::SeedOrder> training,
                           std::vector<store::NodeId> valid,
                           std::vector<store::NodeId> test,
                           std::vector<std::vector<int32_t>> fanouts_of)
    : data_(data),
      fanouts_of_(std::move(fanouts_of)),
      train_order_(Named(std::move(training), data.own_nodes.train)),
      valid_order_(Named(sample::NewSequentialOrder(std::move(valid)),
                         data.own_nodes.valid)),
      test_order_(Named(sample::NewSequentialOrder(std::move(test)),
                        data.own_nodes.test)) {}

strategy::Pass PassSchedule::Of(const sample::SeedOrder& order,
                                uint64_t epoch_key) const {
  return {.order = &order,
          .sampler = {.fanouts = data_.fanouts,
                      .data_seed = data_.data_seed,
                      .layer_nodes = data_.layer_nodes,
                      .fanouts_of = fanouts_of_,
                      .once = data_.once},
          .batch_size = data_.batch_size,
          .shards = data_.trainers,
          .epoch_key = epoch_key,
          .window = data_.window,
          .batches = batches_};
}

strategy::Pass PassSchedule::Training(int64_t epoch) const {
  const int64_t period = PeriodOf(epoch);
  const int64_t keys = data_.NumEpochKeys();
  const int64_t key = period * keys + (epoch - FirstEpochOf(period)) % keys;
  strategy::Pass pass = Of(*train_order_, static_cast<uint64_t>(key));
  pass.history = history_.get();
  return pass;
}

strategy::Pass PassSchedule::Validation() const {
  strategy::Pass pass = Of(*valid_order_, kValidationKey);
  pass.evaluates = true;
  return pass;
}

strategy::Pass PassSchedule::Testing() const {
  strategy::Pass pass = Of(*test_order_, kTestKey);
  pass.evaluates = true;
  return pass;
}

strategy::Pass PassSchedule::Requested(int64_t epoch) const {
  return Of(*train_order_, static_cast<uint64_t>(epoch));
}

std::vector<strategy::Pass> PassSchedule::Kinds() const {
  return {Training(0), Validation(), Testing()};
}

int64_t PassSchedule::num_periods() const {
  return data_.epochs == 0 ? 1 : PeriodOf(data_.epochs - 1) + 1;
}

int64_t PassSchedule::PeriodOf(int64_t epoch) const {
  return data_.refresh_epochs == 0 ? 0 : epoch / data_.refresh_epochs;
}

int64_t PassSchedule::FirstEpochOf(int64_t period) const {
  return period * data_.refresh_epochs;
}

std::vector<strategy::Pass> PassSchedule::OfPeriod(int64_t period) const {
  const int64_t first = FirstEpochOf(period);
  const int64_t end =
      std::min(data_.refresh_epochs == 0
                   ? data_.epochs
                   : std::min(data_.epochs, first + data_.refresh_epochs),
               first + data_.NumEpochKeys());
  std::vector<strategy::Pass> passes;
  passes.reserve(end - first + 2);
  for (int64_t epoch = first; epoch < end; ++epoch) {
    passes.push_back(Training(epoch));
  }
  if (num_valid() > 0) passes.push_back(Validation());
  if (num_test() > 0) passes.push_back(Testing());
  return passes;
}

strategy::PassSequence PassSchedule::SequenceOf(const BatchOptions& job,
                                                int64_t epoch) const {
  strategy::PassSequence sequence;
  std::map<uint64_t, size_t> known;
  const auto add = [&](strategy::Pass pass) {
    const auto [place, is_new] =
        known.try_emplace(pass.epoch_key, sequence.passes.size());
    if (is_new) sequence.passes.push_back(std::move(pass));
    sequence.order.push_back(place->second);
  };
  for (int64_t at = 0; at < job.epochs; ++at) {
    if (at == epoch) sequence.next = sequence.order.size();
    add(Training(job.EpochOfBatches(at)));
    if (num_valid() > 0) add(Validation());
  }
  if (epoch >= job.epochs) sequence.next = sequence.order.size();
  if (num_test() > 0) add(Testing());
  return sequence;
}

}  // namespace hearth::job
