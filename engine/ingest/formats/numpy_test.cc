#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/random.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The in-neighbors of each node, in the order of the source.
std::vector<std::vector<int64_t>> InNeighbors(
    int64_t num_nodes, const std::vector<int64_t>& sources,
    const std::vector<int64_t>& destinations) {
  std::vector<std::vector<int64_t>> neighbors(num_nodes);
  for (size_t i = 0; i < sources.size(); ++i) {
    neighbors[destinations[i]].push_back(sources[i]);
  }
  return neighbors;
}

std::vector<std::vector<int64_t>> InNeighbors(const store::Topology& topology) {
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

/// Options that tests change.
struct Choices {
  std::string name = "test";
  bool in_place = false;
  uint64_t memory_limit_bytes = 256 << 20;
};

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

  /// Expects that the dataset is the folder's usual graph.
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
                ElementsAre(0, 1, 2, 0, 1, -1));
    const store::Split split = *dataset.LoadSplit();
    EXPECT_THAT(split.train, ElementsAre(0, 4));
    EXPECT_THAT(split.valid, ElementsAre(2));
    EXPECT_THAT(split.test, ElementsAre(1, 3));
  }

  /// Those of the dataset that was imported last.
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

TEST_F(NumpyFormatTest, TheUsualFolder) {
  const auto dataset = ImportAndOpen();
  ExpectUsualGraph(*dataset);
  const store::Manifest& manifest = dataset->manifest();
  EXPECT_EQ(manifest.name, "test");
  ASSERT_EQ(manifest.node_types.size(), 1u);
  EXPECT_EQ(manifest.node_types[0].num_nodes, 6);
  EXPECT_EQ(manifest.node_types[0].label_width, 3);
  EXPECT_EQ(manifest.node_types[0].features.data_offset, 4096u);
  ASSERT_EQ(manifest.edge_types.size(), 1u);
  EXPECT_EQ(manifest.edge_types[0].num_edges, 7);
  EXPECT_EQ(manifest.edge_types[0].indices.dtype, store::DType::kInt32);
  EXPECT_THAT(manifest.transforms, ElementsAre("train_idx.npy: sorted",
                                               "edge: sorted by destination"));
}

TEST_F(NumpyFormatTest, ReportsWhatIsWritten) {
  const auto result = Import();
  ASSERT_TRUE(result.ok());
  uint64_t bytes = 0;
  const std::vector<std::string> names = *files_.List(folder_.Destination());
  for (const std::string& name : names) {
    bytes += files_.Stat(folder_.Destination() + "/" + name)->size_bytes;
  }
  EXPECT_EQ(result->bytes_written, bytes);
  EXPECT_EQ(store::Dataset::Open(files_, folder_.Destination())
                .value()
                ->manifest()
                .fingerprint,
            result->manifest.fingerprint);
}

struct EdgeArray {
  const char* shape;
  bool fortran_order;
  bool interleaved;
};

class EdgeArrayTest : public NumpyFormatTest,
                      public testing::WithParamInterface<EdgeArray> {};

TEST_P(EdgeArrayTest, GivesTheSameGraph) {
  std::vector<int32_t> ends;
  if (GetParam().interleaved) {
    for (int64_t i = 0; i < store::NumpyFolder::kNumEdges; ++i) {
      ends.push_back(static_cast<int32_t>(store::NumpyFolder::Sources()[i]));
      ends.push_back(
          static_cast<int32_t>(store::NumpyFolder::Destinations()[i]));
    }
  } else {
    ends.assign(store::NumpyFolder::Sources().begin(),
                store::NumpyFolder::Sources().end());
    ends.insert(ends.end(), store::NumpyFolder::Destinations().begin(),
                store::NumpyFolder::Destinations().end());
  }
  folder_.Write("edge_index.npy", {.descr = "<i4",
                                   .shape = GetParam().shape,
                                   .data = store::Raw(ends),
                                   .fortran_order = GetParam().fortran_order});
  ExpectUsualGraph(*ImportAndOpen());
}

INSTANTIATE_TEST_SUITE_P(Formats, EdgeArrayTest,
                         testing::Values(EdgeArray{"(2, 7)", false, false},
                                         EdgeArray{"(2, 7)", true, true},
                                         EdgeArray{"(7, 2)", false, true},
                                         EdgeArray{"(7, 2)", true, false}));

TEST_F(NumpyFormatTest, TwoByTwoIsTwoRows) {
  folder_.Write("edge_index.npy", {.descr = "<i8",
                                   .shape = "(2, 2)",
                                   .data = store::Raw<int64_t>({1, 2, 3, 4})});
  const auto dataset = ImportAndOpen();
  EXPECT_EQ(
      InNeighbors((*dataset->LoadTopology(store::Residency::kMemory))->view()),
      InNeighbors(6, {1, 2}, {3, 4}));
}

TEST_F(NumpyFormatTest, AGraphMayHaveNoEdges) {
  folder_.Write("edge_index.npy",
                store::NpyText{.descr = "<i8", .shape = "(2, 0)"});
  const auto dataset = ImportAndOpen();
  const auto topology = dataset->LoadTopology(store::Residency::kMapped);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ((*topology)->view().num_edges(), 0);
  EXPECT_EQ((*topology)->view().num_nodes(), 6);
}

TEST_F(NumpyFormatTest, TopologyInCsc) {
  folder_.UseCsc();
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, TopologyInCscOfOtherTypes) {
  folder_.UseCsc();
  folder_.Write("indptr.npy",
                {.descr = "<u4",
                 .shape = "(7,)",
                 .data = store::Raw<uint32_t>({0, 1, 1, 5, 5, 6, 7})});
  folder_.Write("indices.npy",
                {.descr = "|u1",
                 .shape = "(7,)",
                 .data = store::Raw<uint8_t>({1, 0, 3, 5, 4, 0, 2})});
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, FeaturesInFortranOrder) {
  std::vector<float> columns;
  for (int64_t column = 0; column < store::NumpyFolder::kDim; ++column) {
    for (int64_t row = 0; row < store::NumpyFolder::kNumNodes; ++row) {
      columns.push_back(store::NumpyFolder::Features()[row * 3 + column]);
    }
  }
  folder_.Write(
      "node_feat.npy",
      {.shape = "(6, 3)", .data = store::Raw(columns), .fortran_order = true});
  const auto dataset = ImportAndOpen();
  ExpectUsualGraph(*dataset);
  EXPECT_THAT(dataset->manifest().transforms,
              testing::Contains("node_feat.npy: Fortran order to C order"));
}

TEST_F(NumpyFormatTest, Float64BecomesFloat32) {
  const std::vector<double> wide(store::NumpyFolder::Features().begin(),
                                 store::NumpyFolder::Features().end());
  folder_.Write("node_feat.npy",
                {.descr = "<f8", .shape = "(6, 3)", .data = store::Raw(wide)});
  const auto dataset = ImportAndOpen();
  ExpectUsualGraph(*dataset);
  EXPECT_THAT(dataset->manifest().transforms,
              testing::Contains("node_feat.npy: float64 to float32"));
}

TEST_F(NumpyFormatTest, Float16StaysAsItIs) {
  // The greatest, the least normal, the least of all, minus zero.
  const std::vector<uint16_t> halves = {0x7BFF, 0x0400, 0x0001,
                                        0x8000, 0x3C00, 0xFBFF};
  for (const bool in_place : {false, true}) {
    folder_.Write(
        "node_feat.npy",
        {.descr = "<f2", .shape = "(6, 1)", .data = store::Raw(halves)});
    const auto dataset = ImportAndOpen({.in_place = in_place});
    const auto features = *dataset->LoadFeatures(store::Residency::kMemory);
    EXPECT_EQ(features->dtype(), store::DType::kFloat16);
    EXPECT_EQ(features->row_bytes(), 2);
    EXPECT_EQ(Rows<uint16_t>(*features), halves);
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
}

struct FeatureFile {
  const char* descr;
  const char* shape;
  std::string data;
  std::vector<float> values;
};

class FeatureTypeTest : public NumpyFormatTest,
                        public testing::WithParamInterface<FeatureFile> {};

TEST_P(FeatureTypeTest, BecomesFloat32) {
  folder_.Write("node_feat.npy", {.descr = GetParam().descr,
                                  .shape = GetParam().shape,
                                  .data = GetParam().data});
  const auto dataset = ImportAndOpen();
  const auto features = *dataset->LoadFeatures(store::Residency::kMemory);
  EXPECT_EQ(features->dtype(), store::DType::kFloat32);
  EXPECT_EQ(features->num_rows(), 6);
  EXPECT_EQ(Rows<float>(*features), GetParam().values);
}

INSTANTIATE_TEST_SUITE_P(
    Types, FeatureTypeTest,
    testing::Values(FeatureFile{"|i1",
                                "(6, 1)",
                                store::Raw<int8_t>({-128, -1, 0, 1, 2, 127}),
                                {-128, -1, 0, 1, 2, 127}},
                    FeatureFile{"|u1",
                                "(6,)",
                                store::Raw<uint8_t>({0, 1, 2, 3, 128, 255}),
                                {0, 1, 2, 3, 128, 255}},
                    FeatureFile{"|b1",
                                "(6, 2)",
                                store::Raw<uint8_t>({0, 1, 1, 1, 0, 0, 1, 0, 0,
                                                     0, 1, 1}),
                                {0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1}},
                    FeatureFile{"<i8",
                                "(6,)",
                                store::Raw<int64_t>({0, -5, 1 << 24, 3, 4, 5}),
                                {0, -5, 1 << 24, 3, 4, 5}},
                    FeatureFile{"<f4",
                                "(6,)",
                                store::Raw<float>({0, 1, 2.5, 3, 4, 5}),
                                {0, 1, 2.5, 3, 4, 5}},
                    FeatureFile{"<f8",
                                "(6,)",
                                store::Raw<double>({0, 1, 2.5, 3, 4, 5}),
                                {0, 1, 2.5, 3, 4, 5}}));

TEST_F(NumpyFormatTest, BytesInFortranOrderWithinALittleMemory) {
  // Blocks of 64 KiB, as int8 and as float32.
  constexpr int64_t kColumns = 3000;
  std::vector<int8_t> columns;
  for (int64_t column = 0; column < kColumns; ++column) {
    for (int64_t row = 0; row < 6; ++row) {
      columns.push_back(static_cast<int8_t>((row * 31 + column) % 100 - 50));
    }
  }
  folder_.Write("node_feat.npy", {.descr = "|i1",
                                  .shape = "(6, 3000)",
                                  .data = store::Raw(columns),
                                  .fortran_order = true});
  const auto dataset = ImportAndOpen({.memory_limit_bytes = 1 << 20});
  const auto features = *dataset->LoadFeatures(store::Residency::kMemory);
  const std::vector<float> rows = Rows<float>(*features);
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      ASSERT_EQ(rows[row * kColumns + column],
                static_cast<float>((row * 31 + column) % 100 - 50));
    }
  }
}

TEST_F(NumpyFormatTest, AListOfFloatsIsUsedInPlace) {
  folder_.Write(
      "node_feat.npy",
      {.shape = "(6,)", .data = store::Raw<float>({0, 1, 2, 3, 4, 5})});
  const auto dataset = ImportAndOpen({.in_place = true});
  const auto features = *dataset->LoadFeatures(store::Residency::kMapped);
  EXPECT_EQ(features->dim(), 1);
  EXPECT_EQ(Rows<float>(*features), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

// ---- Split

TEST_F(NumpyFormatTest, MasksAreTheSplitThatTheyAre) {
  folder_.Remove("train_idx.npy");
  folder_.Remove("valid_idx.npy");
  folder_.Remove("test_idx.npy");
  const auto write = [&](const char* name, const char* descr,
                         const std::string& mask) {
    folder_.Write(name, {.descr = descr, .shape = "(6,)", .data = mask});
  };
  write("train_mask.npy", "|b1", {1, 0, 0, 0, 1, 0});
  write("val_mask.npy", "|u1", {0, 0, 1, 0, 0, 0});
  write("test_mask.npy", "|i1", {0, 1, 0, 1, 0, 0});
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, ValidationNodesMayBeCalledVal) {
  folder_.Write("val_idx.npy", folder_.Read("valid_idx.npy"));
  folder_.Remove("valid_idx.npy");
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, PartsMayBeAbsentOrEmpty) {
  folder_.Remove("test_idx.npy");
  // As of numpy.array([]).
  folder_.Write("valid_idx.npy",
                store::NpyText{.descr = "<f8", .shape = "(0,)"});
  const auto dataset = ImportAndOpen();
  const store::Split split = *dataset->LoadSplit();
  EXPECT_THAT(split.train, ElementsAre(0, 4));
  EXPECT_THAT(split.valid, testing::IsEmpty());
  EXPECT_THAT(split.test, testing::IsEmpty());
  EXPECT_THAT(dataset->manifest().transforms,
              testing::Contains("valid_idx.npy: is empty"));
  EXPECT_THAT(Warnings(),
              testing::IsSupersetOf({HasSubstr("no validation nodes"),
                                     HasSubstr("no test nodes")}));
}

// ---- Warnings

TEST_F(NumpyFormatTest, ArraysThatAreNotUsedAreNamed) {
  folder_.Write("edge_weight.npy", folder_.Read("node_feat.npy"));
  folder_.Write("edge_attr.npy", folder_.Read("node_feat.npy"));
  folder_.Write("README.md", "A graph.");
  ImportAndOpen();
  const std::vector<std::string> warnings = Warnings();
  ASSERT_FALSE(warnings.empty());
  EXPECT_EQ(warnings[0],
            folder_.path() +
                ": edge_attr.npy, edge_weight.npy are left out: the import "
                "does not use them");
}

TEST_F(NumpyFormatTest, OneHotLabelsAreNoted) {
  folder_.Write(
      "node_label.npy",
      {.shape = "(6, 2)",
       .data = store::Raw<float>({1, 0, 0, 1, 1, 0, 0, 1, 1, 0, NAN, NAN})});
  ImportAndOpen();
  EXPECT_THAT(Warnings(), testing::Contains(HasSubstr("(one-hot)?")));
}

TEST_F(NumpyFormatTest, ClassesWithoutNodesAreCounted) {
  folder_.Write("node_label.npy",
                {.descr = "|u1",
                 .shape = "(6,)",
                 .data = store::Raw<uint8_t>({1, 2, 1, 255, 255, 2})});
  ImportAndOpen();
  EXPECT_THAT(Warnings(),
              testing::Contains(HasSubstr(
                  "253 of 256 classes have no nodes, the first of them class "
                  "0: class 255, of 2 nodes, may stand for no label")));
}

struct LabelFile {
  const char* descr;
  const char* shape;
  std::string data;
};

class LabelTypeTest : public NumpyFormatTest,
                      public testing::WithParamInterface<LabelFile> {};

TEST_P(LabelTypeTest, GivesTheSameLabels) {
  folder_.Write("node_label.npy", {.descr = GetParam().descr,
                                   .shape = GetParam().shape,
                                   .data = GetParam().data});
  ExpectUsualGraph(*ImportAndOpen());
}

INSTANTIATE_TEST_SUITE_P(
    Types, LabelTypeTest,
    testing::Values(
        LabelFile{"|i1", "(6,)", store::Raw<int8_t>({0, 1, 2, 0, 1, -1})},
        LabelFile{"<i2", "(6, 1)", store::Raw<int16_t>({0, 1, 2, 0, 1, -1})},
        LabelFile{"<i4", "(6,)", store::Raw<int32_t>({0, 1, 2, 0, 1, -1})},
        LabelFile{
            "<f2", "(6,)",
            store::Raw<uint16_t>({0, 0x3C00, 0x4000, 0x8000, 0x3C00, 0x7E00})},
        LabelFile{"<f4", "(6, 1)", store::Raw<float>({0, 1, 2, 0, 1, NAN})},
        LabelFile{"<f8", "(6,)", store::Raw<double>({0, 1, 2, 0, 1, NAN})},
        LabelFile{"<f8", "(6,)", store::Raw<double>({0, 1, 2, 0, 1, -1})}));

TEST_F(NumpyFormatTest, NodesWithoutALabelStayInTheSplit) {
  folder_.Write(
      "train_idx.npy",
      {.descr = "<i8", .shape = "(2,)", .data = store::Raw<int64_t>({5, 0})});
  const auto split = *ImportAndOpen()->LoadSplit();
  EXPECT_THAT(split.train, ElementsAre(0, 5));
}

TEST_F(NumpyFormatTest, ReadsEveryVersionOfTheFormat) {
  for (const char version : {2, 3}) {
    folder_.Write("node_feat.npy",
                  {.shape = "(6L, 3L)",
                   .data = store::Raw(store::NumpyFolder::Features()),
                   .version = version});
    ExpectUsualGraph(*ImportAndOpen());
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
}

// ---- In place

TEST_F(NumpyFormatTest, InPlaceLeavesTheFeaturesWhereTheyLie) {
  const auto dataset = ImportAndOpen({.in_place = true});
  ExpectUsualGraph(*dataset);
  const store::ArrayFile& features = dataset->manifest().node_types[0].features;
  EXPECT_TRUE(features.in_place);
  EXPECT_EQ(features.path, *files_.RealPath(folder_.Path("node_feat.npy")));
  EXPECT_EQ(features.data_offset, 128u);
  EXPECT_THAT(
      *files_.List(folder_.Destination()),
      testing::Not(testing::Contains(std::string("node.features.npy"))));
}

TEST_F(NumpyFormatTest, InPlaceHasTheChecksumsOfACopy) {
  const auto copied = *Import();
  ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  const auto registered = *Import({.in_place = true});
  EXPECT_EQ(registered.manifest.node_types[0].features.crc_file_crc32c,
            copied.manifest.node_types[0].features.crc_file_crc32c);
}

TEST_F(NumpyFormatTest, AFileChangedWhileItIsRegisteredIsRefused) {
  progress_ = [this](absl::string_view phase, uint64_t, uint64_t) {
    if (phase == "features") {
      folder_.Write("node_feat.npy", folder_.Read("node_feat.npy") + "more");
    }
  };
  const absl::Status status = Import({.in_place = true}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node_feat.npy: was changed"));
  EXPECT_TRUE(NothingIsThere());
}

// ---- Memory, progress, cancellation

/// Makes the folder's graph a larger one, with hubs; returns its neighbors.
std::vector<std::vector<int64_t>> WriteLargeGraph(store::NumpyFolder& folder,
                                                  int64_t num_nodes,
                                                  int64_t num_edges) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<int64_t> sources, destinations;
  for (int64_t i = 0; i < num_edges; ++i) {
    sources.push_back(static_cast<int64_t>(random.Below(num_nodes)));
    // A third of the edges ends in one node.
    const bool hub = random.Below(3) == 0;
    destinations.push_back(hub ? num_nodes / 2
                               : static_cast<int64_t>(random.Below(num_nodes)));
  }
  const std::string n = std::to_string(num_nodes);
  folder.Write("edge_index.npy",
               {.descr = "<i8",
                .shape = "(2, " + std::to_string(num_edges) + ")",
                .data = store::Raw(sources) + store::Raw(destinations)});
  folder.Write("node_feat.npy",
               {.shape = "(" + n + ", 2)",
                .data = store::Raw(std::vector<float>(2 * num_nodes, 0.5f))});
  folder.Write("node_label.npy", {.descr = "|i1",
                                  .shape = "(" + n + ",)",
                                  .data = std::string(num_nodes, '\1')});
  return InNeighbors(num_nodes, sources, destinations);
}

TEST_F(NumpyFormatTest, TheMemoryLimitChangesNothingButTheWay) {
  const auto expected = WriteLargeGraph(folder_, 70'000, 400'000);
  std::set<std::string> fingerprints;
  for (const uint64_t limit : {uint64_t{1} << 20, uint64_t{256} << 20}) {
    const auto dataset = ImportAndOpen({.memory_limit_bytes = limit});
    EXPECT_EQ(InNeighbors(
                  (*dataset->LoadTopology(store::Residency::kMemory))->view()),
              expected);
    fingerprints.insert(dataset->manifest().fingerprint);
    EXPECT_THAT(*files_.List(folder_.Destination()),
                testing::Not(testing::Contains(HasSubstr("scratch"))));
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
  EXPECT_EQ(fingerprints.size(), 1u);
}

TEST_F(NumpyFormatTest, ALimitThatIsTooLowIsRefusedWithNumbers) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      Import({.memory_limit_bytes = (1 << 20) - 1}).status()));
  folder_.Write("node_feat.npy", {.shape = "(6, 100000)",
                                  .data = std::string(6 * 400'000, '\0')});
  const absl::Status status = Import({.memory_limit_bytes = 1 << 20}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node_feat.npy: a row has 390.6 KiB"));
  EXPECT_TRUE(NothingIsThere());
}

TEST_F(NumpyFormatTest, ProgressGrowsToTheTotalOfEachPhase) {
  WriteLargeGraph(folder_, 70'000, 400'000);
  std::map<std::string, std::pair<uint64_t, uint64_t>> last;
  std::vector<std::string> order;
  progress_ = [&](absl::string_view phase, uint64_t done, uint64_t total) {
    auto [entry, is_new] =
        last.insert({std::string(phase), std::pair(uint64_t{0}, total)});
    if (is_new) order.push_back(std::string(phase));
    EXPECT_GT(done, entry->second.first);
    EXPECT_EQ(total, entry->second.second);
    entry->second.first = done;
  };
  ASSERT_TRUE(Import({.memory_limit_bytes = 1 << 20}).ok());
  EXPECT_THAT(order, ElementsAre("labels", "checking", "edges", "features",
                                 "counting"));
  for (const auto& [phase, bytes] : last) {
    EXPECT_EQ(bytes.first, bytes.second) << phase;
  }
}

TEST_F(NumpyFormatTest, CancelledInAnyPhaseLeavesNothing) {
  WriteLargeGraph(folder_, 70'000, 400'000);
  for (const char* wanted :
       {"labels", "checking", "edges", "features", "counting"}) {
    stop_ = std::stop_source();
    progress_ = [&](absl::string_view phase, uint64_t, uint64_t) {
      if (phase == wanted) stop_.request_stop();
    };
    const absl::Status status =
        Import({.memory_limit_bytes = 1 << 20}).status();
    // The only block of a phase may be its last.
    EXPECT_TRUE(absl::IsCancelled(status)) << wanted << status;
    EXPECT_TRUE(NothingIsThere());
  }
}

// ---- Where it is written

TEST_F(NumpyFormatTest, WhatIsThereStays) {
  ASSERT_TRUE(files_.CreateDirectory(folder_.Destination()).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Import().status()));
  EXPECT_TRUE(files_.List(folder_.Destination())->empty());
}

TEST_F(NumpyFormatTest, ALeftoverIsReplaced) {
  const std::string leftover = folder_.Destination() + ".tmp";
  ASSERT_TRUE(files_.CreateDirectory(leftover).ok());
  ASSERT_TRUE((*files_.Create(leftover + "/old"))->Close().ok());
  ExpectUsualGraph(*ImportAndOpen());
  EXPECT_THAT(*files_.List(folder_.Destination()),
              testing::Not(testing::Contains(std::string("old"))));
}

TEST_F(NumpyFormatTest, TheSourceIsNeverTakenForALeftover) {
  const std::string leftover = folder_.Destination() + ".tmp";
  ASSERT_TRUE(files_.Rename(folder_.path(), leftover).ok());
  ImportOptions options;
  options.source = leftover;
  options.name = "test";
  options.destination = folder_.Destination();
  const absl::Status status =
      ImportDataset(files_, {"numpy"}, options, nullptr, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(files_.List(leftover)->size(), 6u);
}

TEST_F(NumpyFormatTest, AFullDiskIsRefusedBeforeTheStart) {
  files_.LimitSpace(1000);
  const absl::Status status = Import().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1000 (1000 B) are free"));
  for (const auto& call : files_.calls()) {
    EXPECT_NE(call.operation, io::Operation::kCreateDirectory);
  }
  files_.Clear();
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, ADiskThatFillsUpMeanwhileLeavesNothing) {
  files_.Inject({.nth = 12,
                 .for_good = true,
                 .effect = io::Effect::kTearWrite,
                 .status = absl::ResourceExhaustedError("no space"),
                 .only = io::Operation::kWrite});
  EXPECT_TRUE(absl::IsResourceExhausted(Import().status()));
  EXPECT_TRUE(NothingIsThere());
  files_.Clear();
  ExpectUsualGraph(*ImportAndOpen());
}

TEST_F(NumpyFormatTest, NamesThatAreNotTextAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Import({.name = "\xff\xfe"}).status()));
  EXPECT_TRUE(NothingIsThere());
}

TEST_F(NumpyFormatTest, EverythingIsDurableBeforeItIsNamed) {
  ASSERT_TRUE(Import().ok());
  const std::string folder = folder_.Destination() + ".tmp";
  std::set<std::string> unsynced;
  bool renamed = false;
  for (const auto& call : files_.calls()) {
    switch (call.operation) {
      case io::Operation::kCreate:
      case io::Operation::kWrite:
        EXPECT_FALSE(renamed);
        unsynced.insert(call.path);
        unsynced.insert(folder);
        break;
      case io::Operation::kSync:
      case io::Operation::kSyncDirectory:
        unsynced.erase(call.path);
        break;
      case io::Operation::kRename:
        if (call.path != folder_.Destination()) break;
        EXPECT_THAT(unsynced, testing::IsEmpty());
        renamed = true;
        break;
      default:
        break;
    }
  }
  EXPECT_TRUE(renamed);
  EXPECT_EQ(files_.calls().back().operation, io::Operation::kSyncDirectory);
  EXPECT_EQ(files_.calls().back().path, folder_.scratch().path());
}

// ---- Every fault

struct FaultCase {
  io::Effect effect;
  std::optional<io::Operation> only;
  bool in_place;
};

class ImportFaultTest : public NumpyFormatTest,
                        public testing::WithParamInterface<FaultCase> {};

TEST_P(ImportFaultTest, AnyFaultLeavesNothingAndTheNextImportWorks) {
  const Choices options = {.in_place = GetParam().in_place};
  int64_t nth = 1;
  for (bool hit = true; hit; ++nth) {
    SCOPED_TRACE(nth);
    files_.Inject(
        {.nth = nth, .effect = GetParam().effect, .only = GetParam().only});
    const absl::Status status = Import(options).status();
    hit = files_.hits() > 0;
    files_.Clear();
    if (status.ok()) {
      // Not hit, or hit where nothing depends on it.
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
      continue;
    }
    ASSERT_TRUE(hit);
    // Renamed, and told otherwise: then all of it is there.
    if (GetParam().effect == io::Effect::kLoseReply && !NothingIsThere()) {
      ASSERT_TRUE(store::Dataset::Open(files_, folder_.Destination()).ok());
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
    }
    ASSERT_TRUE(NothingIsThere()) << status;
  }
  EXPECT_GT(nth, 20);
  ExpectUsualGraph(*ImportAndOpen(options));
}

TEST_F(NumpyFormatTest, AFaultForGoodLeavesAllOrNothing) {
  int64_t nth = 1;
  for (bool hit = true; hit; ++nth) {
    SCOPED_TRACE(nth);
    files_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = Import().status();
    hit = files_.hits() > 0;
    EXPECT_NE(status.ok(), hit);
    files_.Clear();
    if (files_.Stat(folder_.Destination()).ok()) {
      const auto dataset = store::Dataset::Open(files_, folder_.Destination());
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
    }
  }
  ExpectUsualGraph(*ImportAndOpen());
}

INSTANTIATE_TEST_SUITE_P(
    Effects, ImportFaultTest,
    testing::Values(FaultCase{io::Effect::kFail, std::nullopt, false},
                    FaultCase{io::Effect::kFail, io::Operation::kRead, true},
                    FaultCase{io::Effect::kTearWrite, io::Operation::kWrite,
                              false},
                    FaultCase{io::Effect::kLoseReply, std::nullopt, true}));

}  // namespace
}  // namespace hearth::ingest
