#ifndef HEARTH_ENGINE_INGEST_FORMATS_NUMPY_FORMAT_FIXTURE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_NUMPY_FORMAT_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/ingest/formats/formats.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

/// In-neighbors of each node, in the order of the source.
inline std::vector<std::vector<int64_t>> InNeighbors(
    int64_t num_nodes, const std::vector<int64_t>& sources,
    const std::vector<int64_t>& destinations) {
  std::vector<std::vector<int64_t>> neighbors(num_nodes);
  for (size_t i = 0; i < sources.size(); ++i) {
    neighbors[destinations[i]].push_back(sources[i]);
  }
  return neighbors;
}

inline std::vector<std::vector<int64_t>> InNeighbors(
    const store::Topology& topology) {
  std::vector<std::vector<int64_t>> neighbors(topology.num_nodes());
  for (int64_t node = 0; node < topology.num_nodes(); ++node) {
    std::visit(
        [&](const auto& indices) {
          for (int64_t i = topology.indptr[node]; i < topology.indptr[node + 1];
               ++i) {
            neighbors[node].push_back(indices[i]);
          }
        },
        topology.indices);
  }
  return neighbors;
}

template <typename T>
std::vector<T> Rows(const store::LoadedFeatures& features) {
  std::vector<T> rows(features.num_rows() * features.dim());
  std::memcpy(rows.data(), features.rows(), rows.size() * sizeof(T));
  return rows;
}

/// Import options that tests change.
struct Choices {
  std::string name = "test";
  bool in_place = false;
  uint64_t memory_limit_bytes = 256 << 20;
};

/// Imports a plain numpy folder, which tests may change, through a file system
/// that can fail.
class NumpyFormatTest : public testing::Test {
 protected:
  absl::StatusOr<ImportResult> Import(const Choices& choices = {}) {
    ImportOptions options;
    options.source = folder_.path();
    options.name = choices.name;
    options.destination = folder_.Destination();
    options.in_place = choices.in_place;
    options.memory_limit_bytes = choices.memory_limit_bytes;
    return ImportDataset(files_, {"numpy"}, options, progress_,
                         stop_.get_token());
  }

  std::unique_ptr<store::Dataset> ImportAndOpen(const Choices& choices = {}) {
    const auto result = Import(choices);
    EXPECT_TRUE(result.ok()) << result.status();
    auto dataset = store::Dataset::Open(files_, folder_.Destination());
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  /// Expects the usual graph of NumpyFolder.
  void ExpectUsualGraph(const store::Dataset& dataset) {
    for (const store::Residency residency :
         {store::Residency::kMemory, store::Residency::kMapped}) {
      const auto topology = dataset.LoadTopology(residency);
      ASSERT_TRUE(topology.ok()) << topology.status();
      EXPECT_EQ(InNeighbors((*topology)->view()),
                InNeighbors(store::NumpyFolder::kNumNodes,
                            store::NumpyFolder::Sources(),
                            store::NumpyFolder::Destinations()));
      const auto features = dataset.LoadFeatures(residency);
      ASSERT_TRUE(features.ok()) << features.status();
      EXPECT_EQ((*features)->num_rows(), store::NumpyFolder::kNumNodes);
      EXPECT_EQ((*features)->dim(), store::NumpyFolder::kDim);
      EXPECT_EQ(Rows<float>(**features), store::NumpyFolder::Features());
    }
    EXPECT_THAT(dataset.LoadLabels()->view().classes,
                testing::ElementsAre(0, 1, 2, 0, 1, -1));
    const store::Split split = *dataset.LoadSplit();
    EXPECT_THAT(split.train, testing::ElementsAre(0, 4));
    EXPECT_THAT(split.valid, testing::ElementsAre(2));
    EXPECT_THAT(split.test, testing::ElementsAre(1, 3));
  }

  /// Warnings of the dataset that was imported last.
  std::vector<std::string> Warnings() {
    const auto statistics = LoadStatistics(files_, folder_.Destination());
    EXPECT_TRUE(statistics.ok() && statistics->has_value());
    return (*statistics)->warnings;
  }

  bool NothingIsThere() {
    io::FileSystem& posix = io::FileSystem::Posix();
    return *posix.List(folder_.scratch().path()) ==
           std::vector<std::string>{"source"};
  }

  store::NumpyFolder folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  ImportProgress progress_;
  std::stop_source stop_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NUMPY_FORMAT_FIXTURE_H_
