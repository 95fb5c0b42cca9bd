#include "engine/store/node_space.h"

#include <algorithm>
#include <string>

namespace hearth::store {
namespace {

std::vector<int64_t> Counts(const Manifest& manifest) {
  std::vector<int64_t> counts;
  for (const NodeTypeEntry& type : manifest.node_types) {
    counts.push_back(type.num_nodes);
  }
  return counts;
}

// REQUIRES: there is such a type.
size_t TypeNamed(const Manifest& manifest, const std::string& name) {
  size_t type = 0;
  while (manifest.node_types[type].name != name) ++type;
  return type;
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

Relation RelationAt(const Manifest& manifest, const NodeSpace& nodes,
                    size_t edge_type) {
  const EdgeTypeEntry& entry = manifest.edge_types[edge_type];
  const size_t source = TypeNamed(manifest, entry.source_type);
  const size_t destination = TypeNamed(manifest, entry.destination_type);
  return {.topology = {},
          .type = static_cast<TypeId>(edge_type),
          .name = entry.name,
          .first_destination = nodes.First(destination),
          .first_source = nodes.First(source),
          .num_sources = nodes.First(source + 1) - nodes.First(source)};
}

std::vector<std::vector<size_t>> RelationsInto(
    absl::Span<const Relation> relations, const NodeSpace& nodes) {
  std::vector<std::vector<size_t>> into(nodes.num_types());
  for (size_t i = 0; i < relations.size(); ++i) {
    // A type without nodes has no edges.
    if (relations[i].topology.num_nodes() == 0) continue;
    into[nodes.TypeOf(relations[i].first_destination)].push_back(i);
  }
  return into;
}

}  // namespace hearth::store
