#include "engine/job/interface/train_job_options.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::job {
namespace {

absl::Status RequireAtLeast(const char* option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " must be at least ", least, ", not ", value));
}

// Checks how rows and embeddings share memory, if the options say.
absl::Status CheckShare(const HistoryOptions& history,
                        const strategy::StrategyOptions& strategy) {
  if (history.sample_weight.has_value() && !(*history.sample_weight >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample_weight must be at least 0, not ", *history.sample_weight));
  }
  if (!history.share.has_value()) return absl::OkStatus();
  if (!(*history.share >= 0 && *history.share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("share must be within 0 .. 1, not ", *history.share));
  }
  if (history.cache_bytes > 0) {
    return absl::InvalidArgumentError(
        "share must be unset where cache_bytes is given");
  }
  if (!strategy::SharedCacheBytes(strategy).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("share: strategy ",
                                                   strategy::Name(strategy),
                                                   " has no cache to share"));
  }
  return absl::OkStatus();
}

// A job with a key uses the batches of all distinct epochs, so that it must
// have at least as many epochs.
absl::Status CheckFirstEpochKey(const BatchOptions& data) {
  HEARTH_RETURN_IF_ERROR(
      RequireAtLeast("first_epoch_key", data.first_epoch_key, 0));
  if (data.first_epoch_key == 0) return absl::OkStatus();
  if (data.refresh_epochs > 0 || data.history.has_value() ||
      data.locality_order) {
    return absl::InvalidArgumentError(
        "first_epoch_key must be 0 with refresh_epochs, a history or order "
        "locality");
  }
  const int64_t keys = data.NumEpochKeys();
  if (data.first_epoch_key >= keys || data.epochs < keys) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_epoch_key must be less than distinct_epochs (",
                     keys, "), and that at most epochs (", data.epochs,
                     "), not ", data.first_epoch_key));
  }
  return absl::OkStatus();
}

absl::Status CheckFanoutsOf(const BatchOptions& data) {
  for (const EdgeTypeFanouts& of_type : data.fanouts_of) {
    if (of_type.fanouts.size() != data.fanouts.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts_of: ", of_type.edge_type, " has ", of_type.fanouts.size(),
          " fan-outs, but there are ", data.fanouts.size(), " layers"));
    }
    for (const int32_t fanout : of_type.fanouts) {
      if (fanout >= -1) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts_of: ", of_type.edge_type,
          " must have fan-outs of at least 0, or -1 for all neighbors, not ",
          fanout));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayerNodes(const BatchOptions& data) {
  if (data.layer_nodes.empty()) return absl::OkStatus();
  for (const int32_t nodes : data.layer_nodes) {
    HEARTH_RETURN_IF_ERROR(RequireAtLeast("layer_nodes", nodes, 1));
  }
  if (data.fanouts != std::vector<int32_t>(data.layer_nodes.size(), -1)) {
    return absl::InvalidArgumentError(
        "layer_nodes need a fan-out of -1 for each layer");
  }
  if (data.history.has_value() || data.trainers > 1) {
    return absl::InvalidArgumentError(
        "layer_nodes need one trainer and no history");
  }
  return absl::OkStatus();
}

absl::Status CheckOnce(const BatchOptions& data) {
  if (!data.once) return absl::OkStatus();
  if (!data.layer_nodes.empty()) {
    return absl::InvalidArgumentError(
        "once must be false with layer_nodes, which no node draws by itself");
  }
  if (data.history.has_value()) {
    return absl::InvalidArgumentError(
        "once must be false with a history, which leaves nodes out of layers");
  }
  return absl::OkStatus();
}

absl::Status CheckPartitionOrder(const BatchOptions& data) {
  if (data.locality_order &&
      (data.partition_order.has_value() || data.history.has_value())) {
    return absl::InvalidArgumentError(
        "order locality excludes another order and a history, which depends on "
        "the order");
  }
  if (!data.partition_order.has_value()) return absl::OkStatus();
  const PartitionOrder& order = *data.partition_order;
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("parts", order.parts, 0));
  HEARTH_RETURN_IF_ERROR(
      RequireAtLeast("macro_batch_parts", order.macro_batch_parts, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("rounds", order.rounds, 1));
  if (order.bloom && order.rounds > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("rounds must be 1 with Bloom filters, which cannot forget "
                     "a node, not ",
                     order.rounds));
  }
  return absl::OkStatus();
}

// A GPU samples only batches that it trains on, and if the strategy allows it.
absl::Status CheckSampledOn(const TrainJobOptions& options) {
  const std::optional<int> gpu = options.pipeline.sampling_gpu;
  if (!gpu.has_value()) return absl::OkStatus();
  std::string reason;
  if (gpu != options.train.gpu) reason = "another device trains";
  if (!strategy::KindOf(options.data.strategy).samples_on_gpu) {
    reason = absl::StrCat("strategy ", strategy::Name(options.data.strategy),
                          " samples beforehand");
  }
  if (!options.data.layer_nodes.empty()) reason = "layers are drawn as a whole";
  if (options.data.once) reason = "each node draws once";
  if (reason.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sample_on must be host: ", reason));
}

}  // namespace

std::string OwnNodes::Name() const {
  std::string name;
  const auto add = [&name](const char* split,
                           const std::optional<NodesFile>& file) {
    if (file.has_value()) absl::StrAppend(&name, split, " ", file->sha256, ";");
  };
  add("train", train);
  add("valid", valid);
  add("test", test);
  return name;
}

int64_t BatchOptions::NumEpochKeys() const {
  if (distinct_epochs > 0) return distinct_epochs;
  return refresh_epochs > 0 ? refresh_epochs : epochs;
}

int64_t BatchOptions::EpochOfBatches(int64_t epoch) const {
  if (refresh_epochs > 0) return epoch;
  return (first_epoch_key + epoch) % NumEpochKeys();
}

bool BatchOptions::CanShare() const {
  return refresh_epochs == 0 && !history.has_value() && !locality_order &&
         strategy::DeliversInOrder(strategy);
}

absl::Status BatchOptions::Validate() const {
  if (fanouts.empty()) {
    return absl::InvalidArgumentError("fanouts must not be empty");
  }
  for (const int32_t fanout : fanouts) {
    if (fanout != -1 && fanout < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts must be positive, or -1 for all neighbors, not ", fanout));
    }
  }
  HEARTH_RETURN_IF_ERROR(CheckFanoutsOf(*this));
  HEARTH_RETURN_IF_ERROR(CheckLayerNodes(*this));
  HEARTH_RETURN_IF_ERROR(CheckOnce(*this));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("batch_size", batch_size, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("trainers", trainers, 1));
  if (trainers > train::kMaxTrainers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainers must be at most ", train::kMaxTrainers, ", not ", trainers));
  }
  HEARTH_RETURN_IF_ERROR(window.Validate(trainers));
  if (const int64_t all = window.AllOf(trainers); all > batch_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        all, " trainers need a batch_size of at least as many, not ",
        batch_size));
  }
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("epochs", epochs, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("distinct_epochs", distinct_epochs, 0));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("refresh_epochs", refresh_epochs, 0));
  if (refresh_epochs > 0 && distinct_epochs > refresh_epochs) {
    return absl::InvalidArgumentError(
        absl::StrCat("distinct_epochs must be at most refresh_epochs, ",
                     refresh_epochs, ", not ", distinct_epochs));
  }
  HEARTH_RETURN_IF_ERROR(CheckFirstEpochKey(*this));
  if (automatic.has_value() &&
      !std::holds_alternative<strategy::MemoryOptions>(strategy)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy must be memory where it is chosen automatically, not ",
        strategy::Name(strategy)));
  }
  if (window.is_part()) {
    if (history.has_value()) {
      return absl::InvalidArgumentError(
          "history: other machines compute some of a batch's embeddings");
    }
    if (!strategy::IsExact(strategy)) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy ", strategy::Name(strategy),
                       ": machines share the batches of exact strategies, "
                       "delivered in order, alone"));
    }
  }
  if (history.has_value()) {
    HEARTH_RETURN_IF_ERROR(RequireAtLeast("staleness", history->staleness, 0));
    HEARTH_RETURN_IF_ERROR(
        RequireAtLeast("compare_epochs", history->compare_epochs, 0));
    if (history->compare_epochs > epochs) {
      return absl::InvalidArgumentError(
          absl::StrCat("compare_epochs must be at most epochs (", epochs,
                       "), not ", history->compare_epochs));
    }
    if (fanouts.size() < 2) {
      return absl::InvalidArgumentError(
          "history needs a model of two layers or more");
    }
    if (!strategy::DeliversInOrder(strategy)) {
      return absl::InvalidArgumentError(
          absl::StrCat("history: strategy ", strategy::Name(strategy),
                       " delivers batches out of order"));
    }
    HEARTH_RETURN_IF_ERROR(CheckShare(*history, strategy));
  }
  return CheckPartitionOrder(*this);
}

bool TrainJobOptions::HasModel() const {
  return feed.has_value() ||
         !std::holds_alternative<train::NoModelOptions>(train.model);
}

absl::Status TrainJobOptions::Validate() const {
  HEARTH_RETURN_IF_ERROR(data.Validate());
  if (feed.has_value()) {
    if (data.history.has_value() || data.refresh_epochs != 0 ||
        data.locality_order ||
        data.trainers != static_cast<int64_t>(feed->channels.size())) {
      return absl::InvalidArgumentError(
          "a feed needs a channel for each trainer, no history, no "
          "refresh_epochs and another order than locality");
    }
    return pipeline.Validate();
  }
  if (data.history.has_value() && data.history->compare_epochs > 0 &&
      !HasModel()) {
    return absl::InvalidArgumentError(
        "compare_epochs must be 0 without a model: nothing is validated");
  }
  if (data.locality_order && !HasModel()) {
    return absl::InvalidArgumentError(
        "order must not be locality without a model: nothing is validated");
  }
  if (!data.layer_nodes.empty() && !train::TakesEdgeWeights(train.model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer_nodes: model ", train::Name(train.model),
                     " takes no weights of edges"));
  }
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  HEARTH_RETURN_IF_ERROR(CheckSampledOn(*this));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("patience", patience, 0));
  HEARTH_RETURN_IF_ERROR(
      RequireAtLeast("checkpoint_every", checkpoint_every, 0));
  return train.Validate();
}

TrainJobOptions ForTest(TrainJobOptions trained) {
  trained.part = TrainPart::kTest;
  if (!strategy::KindOf(trained.data.strategy).makes_plans) {
    trained.data.history.reset();
  } else if (trained.data.history.has_value()) {
    trained.data.history->compare_epochs = 0;
  }
  trained.join = false;
  return trained;
}

}  // namespace hearth::job
