#include "engine/model/relation_blocks.h"

#include <numeric>
#include <utility>

namespace hearth::model {
namespace {

// A relation's edges as they are listed; indices are the block's.
struct Listed {
  Adjacency edges;
  std::vector<int32_t> destinations;
};

// Edges of a destination are in ascending order of their types: each run of one
// type is the destination's list in that relation.
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

// Numbers the sources of `indices` anew, in place; the result has their former
// positions. `number` is all -1, before and after.
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
