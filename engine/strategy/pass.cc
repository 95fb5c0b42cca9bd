#include "engine/strategy/pass.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::strategy {

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
  return {"fan-outs", std::move(fanouts)};
}

int64_t NumBatches(int64_t num_seeds, int64_t batch_size) {
  return (num_seeds + batch_size - 1) / batch_size;
}

}  // namespace hearth::strategy
