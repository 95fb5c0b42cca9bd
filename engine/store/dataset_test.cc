#include "engine/store/dataset.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::store {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 700;
constexpr int64_t kDim = 31;

/// Values that differ in every block.
std::vector<float> Values() {
  std::vector<float> values(kRows * kDim);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("node_feat.npy",
                  {.shape = "(700, 31)", .data = Raw(Values())});
    folder_.Write(
        "node_label.npy",
        {.descr = "|i1", .shape = "(700,)", .data = std::string(kRows, '\1')});
  }

  void Import(bool in_place = false) {
    const absl::Status status = hearth::testing::ImportNumpyFolder(
        folder_.path(), folder_.Destination(), in_place);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<Dataset> Open() {
    auto dataset = Dataset::Open(files_, folder_.Destination());
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  std::string File(const std::string& name) {
    return folder_.Destination() + "/" + name;
  }

  /// Flips a bit of a file of the dataset.
  void Damage(const std::string& path, uint64_t offset) {
    std::string bytes = *io::ReadWholeFile(files_, path, 1 << 20);
    bytes[offset] ^= 4;
    auto file = *files_.Create(path);
    ASSERT_TRUE(
        file
            ->Append(absl::MakeConstSpan(
                reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()))
            .ok());
  }

  NumpyFolder folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
};

TEST_F(DatasetTest, FeaturesAreTheSameInMemoryAndMapped) {
  for (const bool in_place : {false, true}) {
    Import(in_place);
    const auto dataset = Open();
    for (const auto residency : {Residency::kMemory, Residency::kMapped,
                                 Residency::kMappedWithReadAhead}) {
      const auto features = dataset->LoadFeatures(residency);
      ASSERT_TRUE(features.ok()) << features.status();
      EXPECT_EQ((*features)->num_rows(), kRows);
      EXPECT_EQ((*features)->row_bytes(), kDim * 4);
      EXPECT_EQ(
          std::memcmp((*features)->rows(), Values().data(), kRows * kDim * 4),
          0);
    }
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
}

TEST_F(DatasetTest, RowsAreReadOneByOneFromWhereTheyLie) {
  for (const bool in_place : {false, true}) {
    Import(in_place);
    const auto features = Open()->OpenFeatures({.buffered = true});
    ASSERT_TRUE(features.ok()) << features.status();
    EXPECT_EQ(features->dim, kDim);
    EXPECT_EQ(features->dtype, DType::kFloat32);
    EXPECT_EQ(features->layout.num_rows, kRows);
    EXPECT_EQ(features->layout.row_bytes, kDim * 4);
    std::vector<float> row(kDim);
    const absl::Span<std::byte> out(reinterpret_cast<std::byte*>(row.data()),
                                    kDim * 4);
    ASSERT_EQ(features->device->ReadOnce(features->layout.RowOffset(699), out),
              kDim * 4);
    EXPECT_EQ(std::memcmp(row.data(), &Values()[699 * kDim], kDim * 4), 0);
    ASSERT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
  }
}

TEST_F(DatasetTest, IndptrMayBeInMemoryAndIndicesMapped) {
  Import();
  const auto dataset = Open();
  const auto topology =
      dataset->LoadTopology({Residency::kMemory, Residency::kMapped});
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ((*topology)->view().InDegree(2), 4);
  std::vector<std::string> mapped;
  for (const auto& call : files_.calls()) {
    if (call.operation == io::Operation::kMap) mapped.push_back(call.path);
  }
  EXPECT_EQ(mapped, std::vector<std::string>{File("edge.indices.npy")});
}

TEST_F(DatasetTest, IndicesAreReadOneByOneFromTheirFile) {
  Import();
  const auto dataset = Open();
  const auto loaded = *dataset->LoadTopology(Residency::kMemory);
  const auto stored = dataset->OpenTopology({.buffered = true});
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->relations.size(), 1u);
  EXPECT_EQ(stored->relations[0].topology.indptr, loaded->view().indptr);
  EXPECT_EQ(stored->files[0].path, File("edge.indices.npy"));
  EXPECT_EQ(stored->layout.num_rows, loaded->view().num_edges());
  ASSERT_EQ(stored->layout.row_bytes, 4u);
  std::vector<int32_t> indices(stored->layout.num_rows);
  const absl::Span<std::byte> out(reinterpret_cast<std::byte*>(indices.data()),
                                  indices.size() * 4);
  ASSERT_EQ(stored->indices->ReadOnce(stored->layout.RowOffset(0), out),
            static_cast<ssize_t>(out.size()));
  EXPECT_EQ(absl::MakeConstSpan(indices),
            std::get<absl::Span<const int32_t>>(loaded->view().indices));
}

TEST_F(DatasetTest, OpeningATopologyTellsThatTheFileHasChanged) {
  Import();
  const auto dataset = Open();
  auto file = *files_.Create(File("edge.indices.npy"));
  const absl::Status status = dataset->OpenTopology({}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("edge.indices.npy"));
}

TEST_F(DatasetTest, OpeningFeaturesTellsThatTheFileHasChanged) {
  Import();
  const auto dataset = Open();
  auto file = *files_.Create(File("node.features.npy"));
  const absl::Status status = dataset->OpenFeatures({}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("node.features.npy"));
}

TEST_F(DatasetTest, RowsInMemoryAreAligned) {
  Import();
  const auto features = *Open()->LoadFeatures(Residency::kMemory);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(features->rows()) % 64, 0u);
}

TEST_F(DatasetTest, RowsOnDiskBeginAtAPage) {
  Import();
  EXPECT_EQ(Open()->manifest().node_types[0].features.data_offset, 4096u);
}

TEST_F(DatasetTest, WhatIsLoadedOutlivesTheDataset) {
  Import();
  auto dataset = Open();
  const auto topology = *dataset->LoadTopology(Residency::kMapped);
  const auto features = *dataset->LoadFeatures(Residency::kMapped);
  dataset.reset();
  EXPECT_EQ(topology->view().num_edges(), 7);
  EXPECT_EQ(topology->view().InDegree(2), 4);
  EXPECT_NE(features->rows(), nullptr);
}

TEST_F(DatasetTest, IsLoadedByManyThreadsAtOnce) {
  Import();
  const auto dataset = Open();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_TRUE(dataset->CheckUnchanged().ok());
      const auto features = dataset->LoadFeatures(Residency::kMemory);
      EXPECT_EQ(
          std::memcmp((*features)->rows(), Values().data(), kRows * kDim * 4),
          0);
      EXPECT_EQ(dataset->LoadLabels()->num_nodes(), kRows);
    });
  }
}

// ---- Types and kinds of labels

class TypedDatasetTest : public DatasetTest {
 protected:
  void SetUp() override {
    DatasetTest::SetUp();
    Import();
    manifest_ = Open()->manifest();
  }

  /// A type of three nodes with labels, and nothing else.
  template <typename T>
  void AddType(const std::string& name, LabelKind kind, int64_t width,
               DType dtype, std::vector<int64_t> shape,
               const std::vector<T>& values) {
    NodeTypeEntry type;
    type.name = name;
    type.num_nodes = 3;
    type.label_kind = kind;
    type.label_width = width;
    auto writer = *ArrayWriter::Create(
        files_,
        {.folder = folder_.Destination(), .dataset = "test", .prefix = name},
        "labels", dtype, std::move(shape), kStreamAccess);
    ASSERT_TRUE(writer->AppendValues<T>(absl::MakeConstSpan(values)).ok());
    type.labels = writer->Finish()->file;
    manifest_.node_types.push_back(type);
  }

  void AddEdgesOfAllTypes() {
    EdgeTypeEntry edges = manifest_.edge_types[0];
    edges.name = "again";
    manifest_.edge_types.push_back(edges);
    ASSERT_TRUE(io::WriteFileAtomically(files_, File("manifest.json"),
                                        SerializeManifest(manifest_))
                    .ok());
  }

  Manifest manifest_;
};

TEST_F(TypedDatasetTest, LoadsEveryTypeByItsNumber) {
  AddType<uint8_t>("tagged", LabelKind::kMultiLabel, 9, DType::kUint8, {3, 2},
                   {0xFF, 3, 0, 0, 1, 2});
  AddType<float>("measured", LabelKind::kTargets, 2, DType::kFloat32, {3, 2},
                 {1, 2, NAN, NAN, 5, 6});
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  EXPECT_EQ(dataset->LoadLabels(0)->kind(), LabelKind::kClasses);
  EXPECT_EQ(dataset->LoadLabels(0)->num_nodes(), kRows);
  const Labels tagged = *dataset->LoadLabels(1);
  EXPECT_EQ(tagged.kind(), LabelKind::kMultiLabel);
  EXPECT_EQ(tagged.width(), 9);
  EXPECT_EQ(tagged.num_nodes(), 3);
  EXPECT_FALSE(tagged.IsLabeled(1));
  EXPECT_TRUE(HasBit(tagged.view().BitRow(2), 0));
  EXPECT_FALSE(tagged.view().partial);
  const Labels measured = *dataset->LoadLabels(2);
  EXPECT_EQ(measured.kind(), LabelKind::kTargets);
  EXPECT_EQ(measured.view().TargetRow(2)[1], 6);
  EXPECT_FALSE(measured.IsLabeled(1));
  EXPECT_EQ((*dataset->LoadFeatures(Residency::kMemory, {}, 0))->dim(), kDim);
  EXPECT_EQ(
      (*dataset->LoadTopology(Residency::kMapped, {}, 1))->view().num_edges(),
      7);
  EXPECT_FALSE(dataset->LoadSplit(0)->train.empty());
  EXPECT_TRUE(dataset->LoadSplit(1)->train.empty());
}

TEST_F(TypedDatasetTest, ATypeWithoutFeaturesOrLabelsIsNamed) {
  NodeTypeEntry bare;
  bare.name = "bare";
  bare.num_nodes = 1;
  manifest_.node_types.push_back(bare);
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  for (const absl::Status& status :
       {dataset->LoadFeatures(Residency::kMapped, {}, 1).status(),
        dataset->OpenFeatures({}, 1).status(),
        dataset->LoadLabels(1).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"bare\" have no"));
  }
}

// The first type has features, labels and a split; the second has labels.
TEST_F(TypedDatasetTest, LoadsTheGraphOfAllTypes) {
  AddType<float>("measured", LabelKind::kTargets, 2, DType::kFloat32, {3, 2},
                 {1, 2, NAN, NAN, 5, 6});
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  const int64_t first = manifest_.node_types[0].num_nodes;

  const auto topology = *dataset->LoadTopology(Residency::kMapped);
  EXPECT_TRUE(topology->is_typed());
  EXPECT_EQ(topology->nodes().num_nodes(), first + 3);
  ASSERT_EQ(topology->relations().size(), 2u);
  for (size_t type = 0; type < 2; ++type) {
    const Relation& relation = topology->relations()[type];
    EXPECT_EQ(relation.type, type);
    EXPECT_EQ(relation.num_sources, first);
    EXPECT_EQ(relation.topology.num_edges(), manifest_.edge_types[0].num_edges);
  }

  EXPECT_EQ(dataset->target_type(), 0u);
  const Split split = *dataset->LoadSplit();
  EXPECT_EQ(dataset->LoadLabels()->num_nodes(), first);
  ASSERT_TRUE(dataset->ChooseTarget("measured").ok());
  EXPECT_EQ(dataset->target_type(), 1u);
  const Labels labels = *dataset->LoadLabels();
  EXPECT_TRUE(labels.IsLabeled(first));
  EXPECT_FALSE(labels.IsLabeled(first + 1));
  EXPECT_EQ(labels.Gather(std::vector<NodeId>{first + 2}).view().targets[1], 6);
  EXPECT_TRUE(dataset->LoadSplit()->train.empty());
  EXPECT_FALSE(split.train.empty());

  const absl::Status unknown = dataset->ChooseTarget("other");
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("node, measured"));
}

TEST_F(TypedDatasetTest, FeaturesOfAllTypesAreAskedForWhereOneHasNone) {
  AddType<float>("measured", LabelKind::kTargets, 2, DType::kFloat32, {3, 2},
                 {1, 2, NAN, NAN, 5, 6});
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  for (const absl::Status& status :
       {dataset->LoadFeatures(Residency::kMapped).status(),
        dataset->OpenFeatures({}).status(), dataset->VerifyFeatures({})}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"measured\""));
  }
}

TEST_F(TypedDatasetTest, IndicesOfAllTypesAreReadAsOneDevice) {
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  const auto loaded = *dataset->LoadTopology(Residency::kMemory);
  const auto stored = dataset->OpenTopology({.buffered = true});
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->relations.size(), 2u);
  for (size_t type = 0; type < 2; ++type) {
    const Relation& expected = loaded->relations()[type];
    const Relation& relation = stored->relations[type];
    EXPECT_EQ(relation.type, expected.type);
    EXPECT_EQ(relation.first_destination, expected.first_destination);
    EXPECT_EQ(relation.first_source, expected.first_source);
    EXPECT_EQ(relation.num_sources, expected.num_sources);
    EXPECT_EQ(relation.topology.indptr, expected.topology.indptr);
    const int64_t num_edges = expected.topology.num_edges();
    const int64_t first_edge = stored->files[type].first_edge;
    EXPECT_EQ(first_edge, static_cast<int64_t>(type) * num_edges);
    const io::DevicePart part =
        stored->indices->PartAt(stored->layout.RowOffset(first_edge));
    std::vector<int32_t> indices(static_cast<size_t>(num_edges));
    const absl::Span<std::byte> out(
        reinterpret_cast<std::byte*>(indices.data()), indices.size() * 4);
    ASSERT_EQ(part.device->ReadOnce(part.offset, out),
              static_cast<ssize_t>(out.size()));
    EXPECT_EQ(absl::MakeConstSpan(indices),
              std::get<absl::Span<const int32_t>>(expected.topology.indices));
  }
}

TEST_F(TypedDatasetTest, DamagedLabelsOfAnyTypeAreDataLoss) {
  AddType<uint8_t>("tagged", LabelKind::kMultiLabel, 9, DType::kUint8, {3, 2},
                   {0xFF, 3, 0, 0, 1, 2});
  AddEdgesOfAllTypes();
  const auto dataset = Open();
  Damage(File("tagged.labels.npy"), manifest_.node_types[1].labels.data_offset);
  const absl::Status status = dataset->LoadLabels(1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tagged.labels.npy"));
}

// ---- Opening

TEST_F(DatasetTest, WithoutAManifestThereIsNoDataset) {
  EXPECT_TRUE(
      absl::IsNotFound(Dataset::Open(files_, folder_.Destination()).status()));
}

TEST_F(DatasetTest, ADamagedManifestIsDataLoss) {
  Import();
  Damage(File("manifest.json"), 100);
  const absl::Status status =
      Dataset::Open(files_, folder_.Destination()).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("manifest.json"));
}

class ChangedFileTest : public DatasetTest,
                        public ::testing::WithParamInterface<const char*> {};

TEST_P(ChangedFileTest, IsNoticedAtOpenAndLater) {
  Import();
  const auto dataset = Open();
  EXPECT_TRUE(dataset->CheckUnchanged().ok());
  const std::string path = File(GetParam());
  const auto expect_changed = [&](const char* what) {
    for (const absl::Status& status :
         {dataset->CheckUnchanged(),
          Dataset::Open(files_, folder_.Destination()).status()}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    }
  };
  ASSERT_TRUE(io::WriteFileAtomically(files_, path, "short").ok());
  expect_changed("it has 5 bytes instead of");
  ASSERT_TRUE(files_.RemoveTree(path).ok());
  expect_changed("it is gone");
  ASSERT_TRUE(files_.CreateDirectory(path).ok());
  expect_changed("it is no regular file");
}

INSTANTIATE_TEST_SUITE_P(
    Files, ChangedFileTest,
    ::testing::Values("node.features.npy", "node.features.npy.crc",
                      "node.labels.npy", "node.train.npy", "node.valid.npy",
                      "node.test.npy.crc", "edge.indptr.npy",
                      "edge.indices.npy"));

TEST_F(DatasetTest, ATouchedFileInPlaceIsNoticed) {
  Import(/*in_place=*/true);
  const auto dataset = Open();
  folder_.Write("node_feat.npy", folder_.Read("node_feat.npy"));
  const absl::Status status = dataset->CheckUnchanged();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("modification time"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("node_feat.npy"));
}

TEST_F(DatasetTest, AChangedHeaderInPlaceIsNoticed) {
  Import(/*in_place=*/true);
  // Every read of a header is damaged; the manifest is read before.
  const auto dataset = Open();
  files_.Inject({.for_good = true, .effect = io::Effect::kCorruptRead});
  const absl::Status status = dataset->CheckUnchanged();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("header"));
}

TEST_F(DatasetTest, FaultsWhileOpeningAreReported) {
  Import(/*in_place=*/true);
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status =
        Dataset::Open(files_, folder_.Destination()).status();
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsUnavailable(status), hit) << status;
  }
}

// ---- Checksums

TEST_F(DatasetTest, DamagedFeaturesAreNamedByFileAndBlock) {
  Import();
  const auto dataset = Open();
  Damage(File("node.features.npy"), 4096 + 3 * 4096 + 17);
  const absl::Status status =
      dataset->LoadFeatures(Residency::kMemory).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node.features.npy: block 3 (bytes 16384 .. 20479)"));
  // Rows of a mapping are checked as they are read.
  EXPECT_TRUE(dataset->LoadFeatures(Residency::kMapped).ok());
}

TEST_F(DatasetTest, TheLastShortBlockIsVerifiedToo) {
  Import();
  const auto dataset = Open();
  Damage(File("node.features.npy"), 4096 + kRows * kDim * 4 - 1);
  const absl::Status status =
      dataset->LoadFeatures(Residency::kMemory).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("block 21"));
}

TEST_F(DatasetTest, SwappedBlocksAreNoticed) {
  Import();
  const auto dataset = Open();
  std::string bytes =
      *io::ReadWholeFile(files_, File("node.features.npy"), 1 << 20);
  const std::string first = bytes.substr(4096, 4096);
  bytes.replace(4096, 4096, bytes.substr(8192, 4096));
  bytes.replace(8192, 4096, first);
  ASSERT_TRUE(
      io::WriteFileAtomically(files_, File("node.features.npy"), bytes).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(dataset->LoadFeatures(Residency::kMemory).status()));
}

TEST_F(DatasetTest, DamageOnTheWayIsReadAgain) {
  Import();
  const auto dataset = Open();
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth, .effect = io::Effect::kCorruptRead});
    const auto features = dataset->LoadFeatures(Residency::kMemory);
    hit = files_.hits() > 0;
    ASSERT_TRUE(features.ok()) << features.status();
    EXPECT_EQ(
        std::memcmp((*features)->rows(), Values().data(), kRows * kDim * 4), 0);
  }
}

struct DamagedFile {
  const char* name;
  uint64_t offset;
};

class DamagedFileTest : public DatasetTest,
                        public ::testing::WithParamInterface<DamagedFile> {};

TEST_P(DamagedFileTest, IsDataLossWhenItsArrayIsLoaded) {
  Import();
  const auto dataset = Open();
  Damage(File(GetParam().name), GetParam().offset);
  const std::vector<absl::Status> statuses = {
      dataset->LoadTopology(Residency::kMemory).status(),
      dataset->LoadFeatures(Residency::kMemory).status(),
      dataset->LoadLabels().status(), dataset->LoadSplit().status()};
  int failed = 0;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    ++failed;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().name));
  }
  EXPECT_EQ(failed, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Files, DamagedFileTest,
    ::testing::Values(DamagedFile{"node.features.npy.crc", 5},
                      DamagedFile{"node.labels.npy", 200},
                      DamagedFile{"node.train.npy", 128},
                      DamagedFile{"node.valid.npy", 130},
                      DamagedFile{"node.test.npy.crc", 0},
                      DamagedFile{"edge.indptr.npy", 140},
                      DamagedFile{"edge.indices.npy", 128}));

TEST_F(DatasetTest, AMappedTopologyThatDoesNotSpanItsEdgesIsDataLoss) {
  Import();
  const auto dataset = Open();
  Damage(File("edge.indptr.npy"), 128);
  EXPECT_TRUE(
      absl::IsDataLoss(dataset->LoadTopology(Residency::kMapped).status()));
}

// ---- Verified once, and again after a change

TEST_F(DatasetTest, AMappedOrStoredTopologyIsVerifiedFirst) {
  Import();
  const auto dataset = Open();
  Damage(File("edge.indices.npy"), 128);
  for (const absl::Status& status :
       {dataset->LoadTopology(Residency::kMapped).status(),
        dataset->LoadTopology({Residency::kMemory, Residency::kMapped})
            .status(),
        dataset->OpenTopology({}).status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("edge.indices.npy: block 0 (bytes 128 .. "));
  }
}

TEST_F(DatasetTest, AFileIsVerifiedOnceUntilItChanges) {
  Import();
  VerificationRecord record;
  const auto reads = [this] {
    int64_t count = 0;
    for (const auto& call : files_.calls()) {
      if (call.operation == io::Operation::kRead &&
          call.path == File("edge.indices.npy")) {
        ++count;
      }
    }
    return count;
  };
  const auto open = [&] {
    return *Dataset::Open(files_, folder_.Destination(), &record);
  };
  ASSERT_TRUE(open()->LoadTopology(Residency::kMapped).ok());
  const int64_t once = reads();
  EXPECT_GT(once, 0);

  const auto dataset = open();
  ASSERT_TRUE(dataset->LoadTopology(Residency::kMapped).ok());
  EXPECT_TRUE(dataset->CheckUnchanged().ok());
  EXPECT_EQ(reads(), once) << "nothing has changed";

  std::filesystem::permissions(File("edge.indices.npy"),
                               std::filesystem::perms::owner_read);
  EXPECT_TRUE(dataset->CheckUnchanged().ok());
  EXPECT_GT(reads(), once) << "something may have";

  std::filesystem::permissions(File("edge.indices.npy"),
                               std::filesystem::perms::owner_all);
  Damage(File("edge.indices.npy"), 130);
  const absl::Status status = dataset->CheckUnchanged();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("edge.indices.npy"));
}

TEST_F(DatasetTest, FeaturesAreVerifiedWhereTheirRowsAreNot) {
  Import();
  const auto dataset = Open();
  EXPECT_TRUE(dataset->VerifyFeatures({}).ok());
  std::stop_source stopped;
  stopped.request_stop();
  Damage(File("node.features.npy"), 4096 + 5 * 4096);
  EXPECT_TRUE(absl::IsCancelled(dataset->VerifyFeatures(stopped.get_token())));
  const absl::Status status = dataset->VerifyFeatures({});
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node.features.npy: block 5"));
}

// Whatever reads whole files.
std::vector<absl::Status> LoadAll(const Dataset& dataset,
                                  const std::stop_token& stop) {
  return {dataset.LoadTopology(Residency::kMemory, stop).status(),
          dataset.LoadTopology(Residency::kMapped, stop).status(),
          dataset.OpenTopology({}, stop).status(),
          dataset.LoadFeatures(Residency::kMemory, stop).status(),
          dataset.ScanFeatures(stop).status(),
          dataset.LoadRowChecksums(stop).status(),
          dataset.VerifyFeatures(stop)};
}

TEST_F(DatasetTest, AStopIsLookedAtBeforeFilesAreRead) {
  Import();
  std::stop_source stopped;
  stopped.request_stop();
  for (const absl::Status& status : LoadAll(*Open(), stopped.get_token())) {
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
  for (const absl::Status& status : LoadAll(*Open(), {})) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(DatasetTest, AStopEndsTheLoadingOfAFileInTheMiddle) {
  // Three chunks of up to 8 MiB.
  folder_.Write("node_feat.npy",
                {.shape = "(700, 6000)",
                 .data = std::string(size_t{kRows} * 6000 * 4, '\1')});
  Import();
  const auto dataset = Open();
  for (const bool scanned : {false, true}) {
    std::stop_source stop;
    files_.Inject({.effect = io::Effect::kBlock,
                   .only = io::Operation::kRead,
                   .path_end = "node.features.npy"});
    absl::Status status;
    {
      const std::jthread loading([&] {
        status =
            scanned
                ? dataset->VerifyFeatures(stop.get_token())
                : dataset->LoadFeatures(Residency::kMemory, stop.get_token())
                      .status();
      });
      files_.AwaitHit();
      stop.request_stop();
      files_.Inject({.for_good = true,
                     .only = io::Operation::kRead,
                     .path_end = "node.features.npy"});
    }
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(files_.hits(), 0) << "nothing is read after the stop";
    files_.Clear();
  }
}

TEST_F(DatasetTest, ScannedFeaturesAreVerified) {
  Import();
  const ScannedFeatures features = *Open()->ScanFeatures();
  EXPECT_EQ(features.rows.first_offset, 4096u);
  EXPECT_EQ(features.rows.num_rows, kRows);
  std::vector<std::byte> bytes(kRows * kDim * 4);
  ASSERT_TRUE(features.file->Read(4096, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), Values().data(), bytes.size()), 0);
  Damage(File("node.features.npy"), 4096 + 7);
  EXPECT_TRUE(absl::IsDataLoss(
      Open()->ScanFeatures()->file->Read(4096, absl::MakeSpan(bytes))));
}

TEST_F(DatasetTest, FaultsWhileLoadingAreReported) {
  Import();
  const auto dataset = Open();
  for (const auto residency : {Residency::kMemory, Residency::kMapped}) {
    bool hit = true;
    for (int64_t nth = 1; hit; ++nth) {
      files_.Inject({.nth = nth});
      const absl::Status topology = dataset->LoadTopology(residency).status();
      const absl::Status features = dataset->LoadFeatures(residency).status();
      hit = files_.hits() > 0;
      EXPECT_EQ(topology.ok() && features.ok(), !hit);
    }
  }
}

}  // namespace
}  // namespace hearth::store
