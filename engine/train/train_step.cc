#include "engine/train/train_step.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/sample/history.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"

namespace hearth::train {

namespace {

absl::Status Expect(absl::string_view what, int64_t value, int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", value, ", but the model expects ", expected));
}

// Checks that each block reads what the previous one writes, and the last one
// writes the seeds.
absl::Status ValidateBlocks(const sample::MiniBatch& batch) {
  int64_t available = std::ssize(batch.input_nodes);
  for (size_t layer = 0; layer < batch.blocks.size(); ++layer) {
    const sample::Block& block = batch.blocks[layer];
    if (batch.top.has_value() && layer + 1 == batch.blocks.size()) {
      HEARTH_RETURN_IF_ERROR(Expect("computed nodes of the top layer",
                                    std::ssize(batch.top->computed),
                                    available));
      available = std::ssize(batch.top->nodes);
    }
    if (block.num_sources != available ||
        block.num_destinations > block.num_sources ||
        static_cast<int64_t>(block.indptr.size()) !=
            block.num_destinations + 1 ||
        static_cast<int64_t>(block.indices.size()) != block.indptr.back()) {
      return absl::InvalidArgumentError("the batch's blocks do not fit");
    }
    available = block.num_destinations;
  }
  return Expect("destinations of the last block", available, batch.num_seeds);
}

// Checks that there is a type below `num_types` for each of `count` nodes or
// edges, or no types at all.
absl::Status ValidateTypes(absl::string_view what,
                           absl::Span<const store::TypeId> types, int64_t count,
                           size_t num_types) {
  if (types.empty()) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(Expect(absl::StrCat("types of ", what),
                                static_cast<int64_t>(types.size()), count));
  const store::TypeId highest = *std::max_element(types.begin(), types.end());
  if (highest < num_types) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("one of the ", what, " is of type ", highest,
                   ", but the model has ", num_types));
}

absl::Status ValidateAllTypes(const sample::MiniBatch& batch,
                              const ModelShape& shape) {
  absl::Status status =
      ValidateTypes("input nodes", batch.node_types,
                    std::ssize(batch.input_nodes), shape.num_node_types());
  if (batch.top.has_value()) {
    status.Update(ValidateTypes("top nodes", batch.top->node_types,
                                std::ssize(batch.top->nodes),
                                shape.num_node_types()));
  }
  for (const sample::Block& block : batch.blocks) {
    status.Update(ValidateTypes("edges", block.edge_types,
                                std::ssize(block.indices),
                                shape.num_edge_types()));
  }
  return status;
}

absl::Status ValidateTop(const sample::TopLayer& top, const LayerRows& rows) {
  HEARTH_RETURN_IF_ERROR(sample::CheckTopLayer(top));
  if (top.pulled.empty() || rows.pulled != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the batch lacks the embeddings that its top layer pulls");
}

}  // namespace

absl::Status BatchView::Validate(const ModelShape& shape) const {
  absl::Status status =
      Expect("features per node", feature_dim, shape.feature_dim);
  status.Update(Expect("blocks in the batch",
                       static_cast<int64_t>(sample.blocks.size()),
                       shape.num_layers));
  status.Update(
      Expect("labels in the batch", labels.num_rows, sample.num_seeds));
  status.Update(Expect("width of the labels", labels.width, shape.label_width));
  status.Update(Expect("in-degrees in the batch",
                       static_cast<int64_t>(sample.in_degrees.size()),
                       static_cast<int64_t>(sample.input_nodes.size())));
  if (rows.has_value()) {
    status.Update(
        Expect("columns of rows in place", rows->format.dim, feature_dim));
  }
  if (!status.ok()) return status;
  if (labels.kind != shape.label_kind) {
    return absl::InvalidArgumentError(absl::StrCat(
        "labels are ", store::Name(labels.kind), ", but the model expects ",
        store::Name(shape.label_kind)));
  }
  status.Update(labels.ValidateLabeled());
  status.Update(ValidateBlocks(sample));
  status.Update(ValidateAllTypes(sample, shape));
  if (sample.top.has_value()) status.Update(ValidateTop(*sample.top, top_rows));
  return status;
}

absl::Status ValidateBatch(absl::Span<const BatchView> shards,
                           const ModelShape& shape) {
  absl::Status status =
      Expect("shards of the batch", static_cast<int64_t>(shards.size()),
             shape.trainers);
  for (const BatchView& shard : shards) status.Update(shard.Validate(shape));
  if (status.ok() && NumSeeds(shards) == 0 && !shape.window.is_part()) {
    return absl::InvalidArgumentError("the batch has no seeds");
  }
  return status;
}

int64_t NumSeeds(absl::Span<const BatchView> shards) {
  int64_t seeds = 0;
  for (const BatchView& shard : shards) seeds += shard.sample.num_seeds;
  return seeds;
}

namespace {

class NullStep final : public TrainStep {
 public:
  absl::StatusOr<BatchResult> Train(absl::Span<const BatchView> shards,
                                    const StepPosition& position) override {
    return Evaluate(shards);
  }

  absl::StatusOr<BatchResult> Evaluate(
      absl::Span<const BatchView> shards) override {
    const int64_t seeds = NumSeeds(shards);
    return BatchResult{.num_seeds = seeds,
                       .weight = static_cast<double>(seeds)};
  }

  absl::StatusOr<store::TensorMap> Save() override {
    return store::TensorMap();
  }

  absl::Status Load(const store::TensorMap& state) override {
    if (state.empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("unexpected tensor ", state.begin()->first));
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors none;
    none.metadata["config"] = R"({"format":"hearth-model-1","model":"none"})";
    return none;
  }
};

}  // namespace

std::unique_ptr<TrainStep> NewNullStep() {
  return std::make_unique<NullStep>();
}

}  // namespace hearth::train
