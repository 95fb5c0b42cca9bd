#include "engine/ingest/tests/small_graphs_fixture.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {
namespace {

/// Edges in memory.
class ListedEdges final : public EdgeSource {
 public:
  explicit ListedEdges(EdgeBlock edges) : edges_(std::move(edges)) {}

  int64_t num_edges() const override {
    return static_cast<int64_t>(edges_.size());
  }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    const auto part = [&](const std::vector<int64_t>& ends) {
      return std::vector<int64_t>(ends.begin() + first,
                                  ends.begin() + first + count);
    };
    block = {part(edges_.sources), part(edges_.destinations)};
    return absl::OkStatus();
  }

 private:
  const EdgeBlock edges_;
};

absl::StatusOr<SourceGraph> OpenTwoTypes(io::FileSystem& files,
                                         const std::string& source) {
  const auto open = [&](const char* name) {
    return ArrayReader::OpenNpy(files, io::JoinPath(source, name));
  };
  SourceNodes authors, papers;
  authors.type = "author";
  HEARTH_ASSIGN_OR_RETURN(authors.features, open("node_feat.npy"));
  authors.num_nodes = authors.features->header().shape[0];
  papers.type = "paper";
  papers.num_nodes = authors.num_nodes;
  HEARTH_ASSIGN_OR_RETURN(papers.features, open("node_feat.npy"));
  HEARTH_ASSIGN_OR_RETURN(papers.labels, open("node_label.npy"));
  HEARTH_ASSIGN_OR_RETURN(papers.split[0], open("train_idx.npy"));
  HEARTH_ASSIGN_OR_RETURN(papers.split[1], open("valid_idx.npy"));
  HEARTH_ASSIGN_OR_RETURN(papers.split[2], open("test_idx.npy"));
  const EdgeEnds ends{papers.num_nodes, papers.num_nodes};
  SourceEdges writes, cites;
  writes.type = "writes";
  writes.source_type = "author";
  writes.destination_type = "paper";
  writes.edges = std::make_unique<ListedEdges>(EdgeBlock{{0, 3, 0}, {1, 5, 5}});
  cites.type = "cites";
  cites.source_type = "paper";
  cites.destination_type = "paper";
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> edges,
                          open("edge_index.npy"));
  HEARTH_ASSIGN_OR_RETURN(cites.edges,
                          NewArrayEdgeSource(std::move(edges), ends));
  SourceGraph graph;
  graph.nodes.push_back(std::move(authors));
  graph.nodes.push_back(std::move(papers));
  graph.edges.push_back(std::move(writes));
  graph.edges.push_back(std::move(cites));
  return graph;
}

}  // namespace

absl::StatusOr<ImportResult> ImportTwoTypes(io::FileSystem& files,
                                            const std::string& source,
                                            const std::string& destination) {
  ImportOptions options;
  options.source = source;
  options.name = "two";
  options.destination = destination;
  return ImportGraph(
      files, options,
      [&](ImportContext&) { return OpenTwoTypes(files, source); }, nullptr, {});
}

}  // namespace hearth::ingest
