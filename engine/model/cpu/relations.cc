#include "engine/model/cpu/relations.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace hearth::model {

namespace {

// Name of an edge type without the names of its node types, unless another edge
// type between these types would get the same name.
std::string RelationName(const train::ModelShape& shape,
                         const train::EdgeTypeShape& type) {
  absl::string_view rest = type.name;
  if (!absl::ConsumePrefix(
          &rest, absl::StrCat(shape.node_types[type.source].name, "__")) ||
      !absl::ConsumeSuffix(
          &rest, absl::StrCat("__", shape.node_types[type.destination].name)) ||
      rest.empty()) {
    return type.name;
  }
  const bool taken =
      std::any_of(shape.edge_types.begin(), shape.edge_types.end(),
                  [&](const train::EdgeTypeShape& other) {
                    return other.name == rest && other.source == type.source &&
                           other.destination == type.destination;
                  });
  return taken ? type.name : std::string(rest);
}

// Whether each node type has rows before layer number `layer`.
std::vector<bool> LiveTypes(const RelationSchema& schema, int64_t layer) {
  std::vector<bool> live(schema.node_types.size(), true);
  for (int64_t i = 0; i < layer; ++i) {
    std::vector<bool> next(live.size());
    for (const Relation& relation : schema.relations) {
      if (live[relation.source] && live[relation.destination]) {
        next[relation.destination] = true;
      }
    }
    // From here on nothing changes, because types only drop out.
    if (next == live) break;
    live = next;
  }
  return live;
}

}  // namespace

std::string RelationSchema::Key(size_t relation) const {
  const Relation& names = relations[relation];
  return absl::StrReplaceAll(
      absl::StrCat("<", node_types[names.source].name, "___", names.name, "___",
                   node_types[names.destination].name, ">"),
      {{".", "#"}});
}

std::string RelationSchema::NodeKey(size_t type) const {
  return absl::StrReplaceAll(node_types[type].name, {{".", "#"}});
}

bool RelationSchema::HasEqualWidths(int64_t feature_dim) const {
  return std::all_of(node_types.begin(), node_types.end(),
                     [&](const train::NodeTypeShape& type) {
                       return type.feature_dim == feature_dim;
                     });
}

std::vector<size_t> RelationSchema::LiveRelations(int64_t layer) const {
  const std::vector<bool> live = LiveTypes(*this, layer);
  std::vector<size_t> result;
  for (size_t i = 0; i < relations.size(); ++i) {
    if (live[relations[i].source] && live[relations[i].destination]) {
      result.push_back(i);
    }
  }
  return result;
}

RelationSchema SchemaOf(const train::ModelShape& shape) {
  if (shape.node_types.empty()) {
    return {.node_types = {{.name = "node", .feature_dim = shape.feature_dim}},
            .relations = {{.name = "edge"}}};
  }
  RelationSchema schema = {.node_types = shape.node_types,
                           .target_type = shape.target_type};
  for (const train::EdgeTypeShape& type : shape.edge_types) {
    schema.relations.push_back({.name = RelationName(shape, type),
                                .source = type.source,
                                .destination = type.destination});
  }
  return schema;
}

absl::Status CheckKeysDiffer(const train::ModelShape& shape) {
  const RelationSchema schema = SchemaOf(shape);
  std::set<std::string> keys;
  for (size_t i = 0; i < schema.node_types.size(); ++i) {
    if (keys.insert(schema.NodeKey(i)).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "two node types would be named ", schema.NodeKey(i), " in the model"));
  }
  keys.clear();
  for (size_t i = 0; i < schema.relations.size(); ++i) {
    if (keys.insert(schema.Key(i)).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "two edge types would be named ", schema.Key(i), " in the model"));
  }
  return absl::OkStatus();
}

absl::Status CheckTargetIsLive(const train::ModelShape& shape) {
  const RelationSchema schema = SchemaOf(shape);
  for (int64_t layer = 1; layer <= shape.num_layers; ++layer) {
    if (LiveTypes(schema, layer)[schema.target_type]) continue;
    const std::string& target = schema.node_types[schema.target_type].name;
    return absl::InvalidArgumentError(
        layer == 1
            ? absl::StrCat("no edge type leads to ", target)
            : absl::StrCat("no edge type leads to ", target,
                           " from nodes that have edges themselves, as layer ",
                           layer, " of ", shape.num_layers, " needs"));
  }
  return absl::OkStatus();
}

namespace {

// Edges of a relation in order; indices are positions in the block.
struct Listed {
  Adjacency edges;
  std::vector<int32_t> destinations;
};

// Edges of a destination ascend by type: each run of one type is the
// destination's list in that relation.
std::vector<Listed> ListByRelation(const sample::Block& block,
                                   size_t num_relations) {
  std::vector<size_t> counts(num_relations);
  for (const store::TypeId type : block.edge_types) ++counts[type];
  if (block.edge_types.empty()) counts[0] = block.indices.size();
  std::vector<Listed> listed(num_relations);
  for (size_t i = 0; i < num_relations; ++i) {
    listed[i].edges.indptr = {0};
    listed[i].edges.indices.reserve(counts[i]);
  }
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const int64_t end = block.indptr[row + 1];
    for (int64_t edge = block.indptr[row]; edge < end;) {
      const size_t type = block.edge_types.empty() ? 0 : block.edge_types[edge];
      Listed& relation = listed[type];
      relation.destinations.push_back(static_cast<int32_t>(row));
      for (; edge < end &&
             (block.edge_types.empty() || block.edge_types[edge] == type);
           ++edge) {
        relation.edges.indices.push_back(block.indices[edge]);
      }
      relation.edges.indptr.push_back(relation.edges.num_edges());
    }
  }
  return listed;
}

// Renumbers the sources in `indices`, in place; returns their former positions.
// `number` is all -1 before and after.
std::vector<int32_t> Renumber(std::vector<int32_t>& indices,
                              std::vector<int32_t>& number) {
  std::vector<int32_t> sources;
  for (int32_t& index : indices) {
    int32_t& own = number[index];
    if (own < 0) {
      own = static_cast<int32_t>(sources.size());
      sources.push_back(index);
    }
    index = own;
  }
  for (const int32_t source : sources) number[source] = -1;
  return sources;
}

}  // namespace

std::vector<RelationBlock> SplitByRelation(const sample::Block& block,
                                           size_t num_relations) {
  std::vector<RelationBlock> relations;
  relations.reserve(num_relations);
  std::vector<int32_t> number(static_cast<size_t>(block.num_sources), -1);
  for (Listed& listed : ListByRelation(block, num_relations)) {
    std::vector<int32_t> sources = Renumber(listed.edges.indices, number);
    listed.edges.num_sources = static_cast<int64_t>(sources.size());
    listed.edges.num_destinations =
        static_cast<int64_t>(listed.destinations.size());
    relations.push_back(
        {.edges = std::move(listed.edges),
         .sources = std::make_shared<std::vector<int32_t>>(std::move(sources)),
         .destinations = std::make_shared<std::vector<int32_t>>(
             std::move(listed.destinations))});
  }
  return relations;
}

Adjacency WithSourcesOfBlock(const RelationBlock& relation,
                             int64_t num_sources) {
  Adjacency edges = relation.edges;
  edges.num_sources = num_sources;
  for (int32_t& index : edges.indices) index = (*relation.sources)[index];
  return edges;
}

std::vector<RowsPtr> RowsByType(absl::Span<const store::TypeId> types,
                                int64_t count, size_t num_types) {
  std::vector<std::vector<int32_t>> rows(num_types);
  if (types.empty()) {
    rows[0].resize(static_cast<size_t>(count));
    std::iota(rows[0].begin(), rows[0].end(), 0);
  } else {
    for (int64_t row = 0; row < count; ++row) {
      rows[types[row]].push_back(static_cast<int32_t>(row));
    }
  }
  std::vector<RowsPtr> result;
  result.reserve(num_types);
  for (std::vector<int32_t>& list : rows) {
    result.push_back(std::make_shared<std::vector<int32_t>>(std::move(list)));
  }
  return result;
}

}  // namespace hearth::model
