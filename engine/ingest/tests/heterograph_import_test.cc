#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_options.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::ingest {
namespace {

using hearth::testing::HeteroGraph;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
/// (source, destination), ascending.
using Edges = std::vector<std::pair<int64_t, int64_t>>;

Edges Reversed(Edges edges) {
  for (auto& [source, destination] : edges) std::swap(source, destination);
  std::sort(edges.begin(), edges.end());
  return edges;
}

float ToFloat(float value) { return value; }
float ToFloat(uint16_t bits) { return store::Float16ToFloat(bits); }
void Store(double value, float& to) { to = static_cast<float>(value); }
void Store(double value, uint16_t& to) {
  to = store::FloatToFloat16(static_cast<float>(value));
}

/// The definition: for each of `num_nodes` nodes the mean of the rows of its
/// neighbors, given pairs of (neighbor, node).
template <typename T>
std::vector<T> Means(const Edges& edges, const std::vector<T>& rows, size_t dim,
                     int64_t num_nodes) {
  std::vector<double> sums(num_nodes * dim);
  std::vector<int64_t> counts(num_nodes);
  for (const auto& [neighbor, node] : edges) {
    ++counts[node];
    for (size_t i = 0; i < dim; ++i) {
      sums[node * dim + i] += ToFloat(rows[neighbor * dim + i]);
    }
  }
  std::vector<T> means(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    Store(counts[i / dim] == 0 ? 0 : sums[i] / counts[i / dim], means[i]);
  }
  return means;
}

class HeterographImportTest : public ::testing::Test {
 protected:
  HeterographImportTest() {
    options_.source = scratch_.Path("source");
    options_.name = "planted";
    options_.destination = scratch_.Path("dataset");
  }

  void Write(const HeteroGraph& graph) {
    ASSERT_TRUE(files_.RemoveTree(options_.source).ok());
    ASSERT_TRUE(
        hearth::testing::WriteGraphBoltFolder(graph, options_.source).ok());
  }

  absl::Status TryImport() {
    EXPECT_TRUE(files_.RemoveTree(options_.destination).ok());
    return ImportDataset(files_, {"graphbolt"}, options_, nullptr, {}).status();
  }

  void Import() {
    const absl::Status status = TryImport();
    ASSERT_TRUE(status.ok()) << status;
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

  size_t IndexOf(const std::string& type) {
    const auto& types = dataset_->manifest().node_types;
    return static_cast<size_t>(
        std::find_if(types.begin(), types.end(),
                     [&](const auto& entry) { return entry.name == type; }) -
        types.begin());
  }

  /// Features of the nodes of a type, as bits of float16 or as float32.
  template <typename T>
  std::vector<T> LoadFeatures(const std::string& type) {
    const auto loaded = dataset_->LoadFeatures(
        store::Residency::kMemory, std::stop_token(), IndexOf(type));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    const store::LoadedFeatures& features = **loaded;
    EXPECT_EQ(store::SizeOf(features.dtype()), int64_t{sizeof(T)});
    std::vector<T> values(features.num_rows() * features.dim());
    std::memcpy(values.data(), features.rows(), values.size() * sizeof(T));
    return values;
  }

  int64_t NumNodes(const std::string& type) {
    return dataset_->manifest().node_types[IndexOf(type)].num_nodes;
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  ImportOptions options_;
  std::unique_ptr<store::Dataset> dataset_;
};

TEST_F(HeterographImportTest, UndirectedAddsTypesAndEdges) {
  Write({});
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

TEST_F(HeterographImportTest, FilledFeaturesAreMeansOfNeighbors) {
  Write({.author_dim = 0, .venue_dim = 0});
  options_.fill_features = true;
  // 1 MiB holds a few hundred rows at a time.
  for (const bool in_place : {false, true}) {
    std::string fingerprint;
    for (const uint64_t memory : {64 * kMiB, kMiB}) {
      options_.memory_limit_bytes = memory;
      options_.in_place = in_place;
      Import();
      if (!fingerprint.empty()) {
        EXPECT_EQ(dataset_->manifest().fingerprint, fingerprint);
      }
      fingerprint = dataset_->manifest().fingerprint;
      std::map<std::string, Edges> edges = LoadEdges();
      const auto papers = LoadFeatures<float>("paper");
      EXPECT_EQ(LoadFeatures<float>("venue"),
                Means(Reversed(edges["venue:publishes:paper"]), papers, 20,
                      NumNodes("venue")));
      Edges of_authors = Reversed(edges["author:writes:paper"]);
      const Edges& more = edges["paper:written_by:author"];
      of_authors.insert(of_authors.end(), more.begin(), more.end());
      EXPECT_EQ(LoadFeatures<float>("author"),
                Means(of_authors, papers, 20, NumNodes("author")));
      EXPECT_THAT(dataset_->manifest().transforms,
                  Contains("author: features are the means over "
                           "author:writes:paper, paper:written_by:author"));
    }
  }
}

TEST_F(HeterographImportTest, TypesAreFilledInRoundsFromFeaturesOfOneKind) {
  // Papers get the means of authors' features (float16), not of venues'.
  Write({.paper_dim = 0});
  options_.fill_features = true;
  options_.memory_limit_bytes = kMiB;
  Import();
  std::map<std::string, Edges> edges = LoadEdges();
  Edges of_papers = edges["author:writes:paper"];
  const Edges more = Reversed(edges["paper:written_by:author"]);
  of_papers.insert(of_papers.end(), more.begin(), more.end());
  EXPECT_EQ(LoadFeatures<uint16_t>("paper"),
            Means(of_papers, LoadFeatures<uint16_t>("author"), 12,
                  NumNodes("paper")));
  EXPECT_THAT(dataset_->manifest().transforms,
              Contains("paper: features are the means over "
                       "author:writes:paper, paper:written_by:author; other "
                       "features lie at the ends of venue:publishes:paper"));
  // Only papers reach venues, so venues are filled after papers.
  Write({.paper_dim = 0, .venue_dim = 0});
  options_.edges.add_reverse = true;
  Import();
  EXPECT_EQ(LoadFeatures<uint16_t>("venue"),
            Means(LoadEdges()["paper:rev_publishes:venue"],
                  LoadFeatures<uint16_t>("paper"), 12, NumNodes("venue")));
}

TEST_F(HeterographImportTest, NodesWithoutNeighborsGetZeros) {
  Write({.num_venues = 5000, .in_degree = 0, .venue_dim = 0});
  options_.fill_features = true;
  Import();
  EXPECT_THAT(LoadFeatures<float>("venue"), ::testing::Each(0.0f));
}

TEST_F(HeterographImportTest, DamageOnTheWayIsNeverTakenIn) {
  Write({.num_papers = 50, .num_authors = 20, .num_venues = 5, .venue_dim = 0});
  options_.fill_features = true;
  options_.edges.add_reverse = true;
  Import();
  const std::string fingerprint = dataset_->manifest().fingerprint;
  // Only files of the dataset: the source has no checksums.
  for (const std::string path_end :
       {"paper.features.npy", "publishes_paper.indices.npy"}) {
    for (const bool for_good : {false, true}) {
      int64_t nth = 1;
      for (bool hit = true; hit; ++nth) {
        files_.Inject({.nth = nth,
                       .for_good = for_good,
                       .effect = io::Effect::kCorruptRead,
                       .path_end = path_end});
        const absl::Status status = TryImport();
        hit = files_.hits() > 0;
        files_.Clear();
        if (!status.ok()) {
          EXPECT_TRUE(hit) << status;
          continue;
        }
        EXPECT_FALSE(hit && for_good) << nth;
        const auto dataset = store::Dataset::Open(files_, options_.destination);
        ASSERT_TRUE(dataset.ok()) << dataset.status();
        EXPECT_EQ((*dataset)->manifest().fingerprint, fingerprint) << nth;
      }
      EXPECT_GT(nth, 3) << path_end;
    }
  }
}

TEST_F(HeterographImportTest, NothingIsFilledUnlessAskedFor) {
  Write({.venue_dim = 0});
  Import();
  EXPECT_EQ(dataset_->manifest().node_types[2].features.path, "");
}

TEST_F(HeterographImportTest, WithoutAnyFeaturesNothingCanBeFilled) {
  Write({.paper_dim = 0, .author_dim = 0, .venue_dim = 0});
  options_.fill_features = true;
  const absl::Status status = TryImport();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no nodes have"));
}

}  // namespace
}  // namespace hearth::ingest
