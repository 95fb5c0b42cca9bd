#include "engine/strategy/pass.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::strategy {

namespace {

// With fewer batches the standard deviation says little.
constexpr int64_t kLeastBatches = 30;
constexpr double kDeviations = 8;

}  // namespace

sample::BatchShape BatchBound::WithMargin() const {
  std::vector<int64_t> bounds;
  sample::ForEachNumber(bound,
                        [&](int64_t number) { bounds.push_back(number); });
  sample::BatchShape shape = likely;
  shape.relations.resize(bound.relations.size());
  size_t i = 0;
  sample::ForEachNumber(
      shape, [&](int64_t& number) { number = std::min(number, bounds[i++]); });
  shape.types_per_node = bound.types_per_node;
  return shape;
}

void BatchSpread::Add(const sample::BatchShape& batch, int64_t most_seeds) {
  sample::Enlarge(batch, largest_);
  if (batch.nodes.back() < most_seeds) return;
  ++count_;
  size_t i = 0;
  sample::ForEachNumber(batch, [&](int64_t number) {
    sums_.resize(std::max(sums_.size(), i + 1));
    const auto value = static_cast<double>(number);
    sums_[i].sum += value;
    sums_[i].of_squares += value * value;
    ++i;
  });
}

sample::BatchShape BatchSpread::Likely() const {
  const auto likely = [this](int64_t largest, const Sums& sums) {
    const int64_t most = largest + largest / 8;
    if (count_ < kLeastBatches) return most;
    const auto count = static_cast<double>(count_);
    const double mean = sums.sum / count;
    const double variance =
        std::max(0.0, (sums.of_squares - mean * sums.sum) / (count - 1));
    const auto spread = static_cast<int64_t>(
        std::ceil(mean + kDeviations * std::sqrt(variance)));
    return std::clamp(spread, largest, most);
  };
  sample::BatchShape shape = largest_;
  size_t i = 0;
  sample::ForEachNumber(shape, [&](int64_t& number) {
    number = likely(number, i < sums_.size() ? sums_[i] : Sums());
    ++i;
  });
  return shape;
}

absl::Status PipelineOptions::Validate() const {
  for (const auto& [name, threads] :
       {std::pair("samplers", samplers), std::pair("extractors", extractors)}) {
    if (threads < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be at least 1, not ", threads));
    }
  }
  return absl::OkStatus();
}

std::pair<std::string, std::string> DescribeSampler(
    const sample::NeighborSamplerOptions& sampler) {
  if (!sampler.layer_nodes.empty()) {
    return {"nodes per layer", absl::StrJoin(sampler.layer_nodes, ",")};
  }
  std::string fanouts = absl::StrJoin(sampler.fanouts, ",");
  for (size_t type = 0; type < sampler.fanouts_of.size(); ++type) {
    if (sampler.fanouts_of[type].empty()) continue;
    absl::StrAppend(&fanouts, "; of edge type ", type, ": ",
                    absl::StrJoin(sampler.fanouts_of[type], ","));
  }
  if (sampler.once) absl::StrAppend(&fanouts, "; each node draws once");
  return {"fan-outs", std::move(fanouts)};
}

int64_t NumBatches(int64_t num_seeds, int64_t batch_size) {
  return (num_seeds + batch_size - 1) / batch_size;
}

int64_t NumBatches(const Pass& pass) {
  if (pass.requests != nullptr) return kUnbounded;
  return NumBatches(pass.order->size(), pass.batch_size);
}

namespace {

template <typename T>
void AddIfKnown(const std::optional<T>& part, std::optional<T>& whole) {
  if (part.has_value() && whole.has_value()) {
    *whole += *part;
  } else {
    whole.reset();
  }
}

}  // namespace

void Accumulate(const PassReport& part, PassReport& whole) {
  // It knows nothing, and would make unknown what is known.
  if (part.batches == 0) return;
  if (whole.stages.empty()) {
    whole = part;
    return;
  }
  whole.seconds += part.seconds;
  whole.batches += part.batches;
  whole.seeds += part.seeds;
  whole.rows_needed += part.rows_needed;
  whole.bytes_needed += part.bytes_needed;
  AddIfKnown(part.bytes_read, whole.bytes_read);
  AddIfKnown(part.read_ops, whole.read_ops);
  AddIfKnown(part.io_wait_seconds, whole.io_wait_seconds);
  AddIfKnown(part.rows_read, whole.rows_read);
  whole.pulled += part.pulled;
  whole.pushed += part.pushed;
  whole.sum_of_ages += part.sum_of_ages;
  for (size_t i = 0; i < whole.hits.size() && i < part.hits.size(); ++i) {
    whole.hits[i].rows += part.hits[i].rows;
  }
  AddIfKnown(part.lists_read, whole.lists_read);
  for (size_t i = 0; i < whole.list_hits.size() && i < part.list_hits.size();
       ++i) {
    whole.list_hits[i].lists += part.list_hits[i].lists;
  }
  if (part.overlap.has_value() && whole.overlap.has_value()) {
    whole.overlap->batches += part.overlap->batches;
    whole.overlap->merged += part.overlap->merged;
    whole.overlap->held_by_merge_max += part.overlap->held_by_merge_max;
    whole.overlap->held_by_staging += part.overlap->held_by_staging;
    whole.overlap->bypassed += part.overlap->bypassed;
  }
  for (size_t i = 0; i < whole.phases.size() && i < part.phases.size(); ++i) {
    whole.phases[i].seconds += part.phases[i].seconds;
  }
  for (size_t i = 0; i < whole.stages.size() && i < part.stages.size(); ++i) {
    whole.stages[i].busy_seconds += part.stages[i].busy_seconds;
    whole.stages[i].starved_seconds += part.stages[i].starved_seconds;
    whole.stages[i].blocked_seconds += part.stages[i].blocked_seconds;
    whole.stages[i].items += part.stages[i].items;
  }
}

}  // namespace hearth::strategy
