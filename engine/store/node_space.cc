#include "engine/store/node_space.h"

#include <algorithm>

namespace hearth::store {
namespace {

std::vector<int64_t> Counts(const Manifest& manifest) {
  std::vector<int64_t> counts;
  for (const NodeTypeEntry& type : manifest.node_types) {
    counts.push_back(type.num_nodes);
  }
  return counts;
}

}  // namespace

NodeSpace::NodeSpace(const Manifest& manifest) : NodeSpace(Counts(manifest)) {}

NodeSpace::NodeSpace(const std::vector<int64_t>& counts) : firsts_({0}) {
  for (const int64_t count : counts) firsts_.push_back(firsts_.back() + count);
}

TypeId NodeSpace::TypeOf(NodeId node) const {
  // Types without nodes begin where the next one does.
  const auto after = std::upper_bound(firsts_.begin() + 1, firsts_.end(), node);
  return static_cast<TypeId>(after - firsts_.begin() - 1);
}

}  // namespace hearth::store
