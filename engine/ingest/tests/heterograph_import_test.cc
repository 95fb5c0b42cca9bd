#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/formats/import_dataset.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/import/import_options.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/residency.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/hetero_graph.h"

namespace hearth::ingest {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;
/// (source, destination), ascending.
using Edges = std::vector<std::pair<int64_t, int64_t>>;

Edges Reversed(Edges edges) {
  for (auto& [source, destination] : edges) std::swap(source, destination);
  std::sort(edges.begin(), edges.end());
  return edges;
}

class HeterographImportTest : public ::testing::Test {
 protected:
  HeterographImportTest() {
    options_.source = scratch_.Path("source");
    options_.name = "planted";
    options_.destination = scratch_.Path("dataset");
    EXPECT_TRUE(
        hearth::testing::WriteGraphBoltFolder({.venue_dim = 0}, options_.source)
            .ok());
  }

  void Import() {
    ASSERT_TRUE(files_.RemoveTree(options_.destination).ok());
    const auto result =
        ImportDataset(files_, {"graphbolt"}, options_, nullptr, {});
    ASSERT_TRUE(result.ok()) << result.status();
    auto dataset = store::Dataset::Open(files_, options_.destination);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    dataset_ = *std::move(dataset);
  }

  std::map<std::string, Edges> LoadEdges() {
    std::map<std::string, Edges> all;
    for (size_t i = 0; i < dataset_->manifest().edge_types.size(); ++i) {
      const auto loaded = dataset_->LoadTopology(store::Residency::kMemory,
                                                 std::stop_token(), i);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      const store::Topology& lists = (*loaded)->view();
      const auto& sources = std::get<absl::Span<const int32_t>>(lists.indices);
      Edges& edges = all[dataset_->manifest().edge_types[i].name];
      for (int64_t node = 0; node < lists.num_nodes(); ++node) {
        for (int64_t at = lists.indptr[node]; at < lists.indptr[node + 1];
             ++at) {
          edges.emplace_back(sources[at], node);
        }
      }
      std::sort(edges.begin(), edges.end());
    }
    return all;
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  ImportOptions options_;
  std::unique_ptr<store::Dataset> dataset_;
};

TEST_F(HeterographImportTest, UndirectedAddsTypesAndEdges) {
  Import();
  const std::map<std::string, Edges> directed = LoadEdges();
  options_.edges.add_reverse = true;
  std::string fingerprint;
  for (const uint64_t memory : {kMiB, 64 * kMiB}) {
    options_.memory_limit_bytes = memory;
    Import();
    const store::Manifest& manifest = dataset_->manifest();
    if (!fingerprint.empty()) {
      EXPECT_EQ(manifest.fingerprint, fingerprint);
    }
    fingerprint = manifest.fingerprint;
    std::vector<std::string> names;
    for (const store::EdgeTypeEntry& type : manifest.edge_types) {
      names.push_back(type.name);
    }
    EXPECT_THAT(
        names,
        ElementsAre("author:writes:paper", "paper:cites:paper",
                    "paper:written_by:author", "venue:publishes:paper",
                    "paper:rev_writes:author", "author:rev_written_by:paper",
                    "paper:rev_publishes:venue"));
    EXPECT_EQ(manifest.edge_types[6].source_type, "paper");
    EXPECT_EQ(manifest.edge_types[6].destination_type, "venue");
    EXPECT_THAT(manifest.transforms,
                Contains("paper:rev_writes:author: added, the reverse of "
                         "author:writes:paper"));
    std::map<std::string, Edges> edges = LoadEdges();
    EXPECT_EQ(edges["author:writes:paper"], directed.at("author:writes:paper"));
    EXPECT_EQ(edges["paper:rev_writes:author"],
              Reversed(directed.at("author:writes:paper")));
    EXPECT_EQ(edges["author:rev_written_by:paper"],
              Reversed(directed.at("paper:written_by:author")));
    EXPECT_EQ(edges["paper:rev_publishes:venue"],
              Reversed(directed.at("venue:publishes:paper")));
    Edges both = directed.at("paper:cites:paper");
    const Edges reversed = Reversed(both);
    both.insert(both.end(), reversed.begin(), reversed.end());
    std::sort(both.begin(), both.end());
    EXPECT_EQ(edges["paper:cites:paper"], both);
  }
}

}  // namespace
}  // namespace hearth::ingest
