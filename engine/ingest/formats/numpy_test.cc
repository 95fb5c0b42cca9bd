#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/ingest/formats/numpy_format_fixture.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  // The greatest, the least normal, the least of all, and minus zero.
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
  // Blocks of 64 KiB, both as int8 and as float32.
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
  // The dtype of numpy.array([]).
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

}  // namespace
}  // namespace hearth::ingest
