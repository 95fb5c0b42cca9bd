#include "engine/ingest/export/write_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/ingest/export/dataset_source.h"
#include "engine/ingest/export/source_output.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kNodes = 2000;
constexpr uint64_t kMemory = 8 << 20;

GenerateOptions Options() {
  GenerateOptions options;
  options.num_nodes = kNodes;
  options.num_edges = 16000;
  options.feature_dim = 16;
  options.num_classes = 4;
  options.train_share = 0.3;
  options.valid_share = 0.2;
  options.test_share = 0.2;
  return options;
}

absl::StatusOr<SourceGraph> OpenList(ImportContext& context) {
  return OpenGenerated(context, Options());
}

/// A graph that formats for one type cannot hold.
absl::StatusOr<SourceGraph> OpenTwoTypes(ImportContext& context) {
  absl::StatusOr<SourceGraph> graph = OpenList(context);
  if (!graph.ok()) return graph;
  graph->nodes.push_back({});
  graph->nodes[1].type = "other";
  graph->nodes[1].num_nodes = kNodes;
  graph->edges[0].source_type = "other";
  return graph;
}

std::vector<int64_t> Integers(ArrayReader* array) {
  if (array == nullptr) return {};
  std::vector<int64_t> values(
      static_cast<size_t>(array->header().NumElements()));
  EXPECT_TRUE(array->ReadInts(0, absl::MakeSpan(values)).ok());
  return values;
}

std::vector<double> Floats(ArrayReader* array) {
  if (array == nullptr) return {};
  std::vector<double> values(
      static_cast<size_t>(array->header().NumElements()));
  EXPECT_TRUE(array->ReadFloats(0, absl::MakeSpan(values)).ok());
  return values;
}

/// All values of the nodes with features (or of the first type), and of the
/// edges.
struct Values {
  std::vector<std::pair<int64_t, int64_t>> edges;
  std::vector<double> features;
  std::vector<int64_t> labels;
  std::array<std::vector<int64_t>, 3> split;
};

Values ReadValues(const std::string& path) {
  io::FileSystem& files = io::FileSystem::Posix();
  const auto dataset = store::Dataset::Open(files, path);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  SourceGraph graph = OpenDatasetAsSource(files, **dataset).value();
  Values values;
  for (SourceEdges& edges : graph.edges) {
    if (edges.num_edges() == 0) continue;
    EXPECT_THAT(values.edges, IsEmpty());
    const EdgeList list(edges);
    EdgeBlock block;
    EXPECT_TRUE(list->Read(0, list->num_edges(), block).ok());
    for (size_t i = 0; i < block.size(); ++i) {
      values.edges.emplace_back(block.sources[i], block.destinations[i]);
    }
  }
  std::sort(values.edges.begin(), values.edges.end());
  for (SourceNodes& nodes : graph.nodes) {
    if (nodes.features == nullptr) continue;
    values.features = Floats(nodes.features.get());
    values.labels = Integers(nodes.labels.get());
    for (size_t i = 0; i < values.split.size(); ++i) {
      values.split[i] = Integers(nodes.split[i].get());
    }
  }
  return values;
}

class WriteFormatTest : public testing::Test {
 protected:
  absl::Status Write(std::string format, OpenSource open,
                     const std::string& name) {
    return WriteFormat(files_, {scratch_.Path(name), format, kMemory}, open,
                       nullptr, stop_.get_token());
  }

  ImportOptions Import(const std::string& source, const std::string& to) {
    ImportOptions options;
    options.source = scratch_.Path(source);
    options.name = "test";
    options.destination = scratch_.Path(to);
    return options;
  }

  std::vector<std::string> Entries(const std::string& name = "") {
    return files_.List(name.empty() ? scratch_.path() : scratch_.Path(name))
        .value();
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  std::stop_source stop_;
};

/// What a format preserves of a graph.
struct Kept {
  std::string format;
  bool nodes = true;
  bool split = true;
  /// Relative error of the features.
  double precision = 0;
};

class RoundTripTest
    : public WriteFormatTest,
      public testing::WithParamInterface<std::tuple<Kept, bool>> {};

TEST_P(RoundTripTest, ComesBackAsItWentOut) {
  const auto& [kept, from_dataset] = GetParam();
  ASSERT_TRUE(
      ImportGraph(files_, Import("made", "origin"), OpenList, nullptr, {})
          .ok());
  const auto dataset = store::Dataset::Open(files_, scratch_.Path("origin"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto open = [&, list = !from_dataset](ImportContext& context) {
    return list ? OpenList(context) : OpenDatasetAsSource(files_, **dataset);
  };
  const absl::Status status = Write(kept.format, open, "out");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Entries(), testing::UnorderedElementsAre("origin", "out"));
  const std::string source =
      kept.format == "edge-list" ? "out/edges.txt" : "out";
  const auto recognized = RecognizeFormat(files_, scratch_.Path(source));
  ASSERT_TRUE(recognized.ok()) << recognized.status();
  EXPECT_EQ(recognized->format, kept.format);
  const auto back =
      ImportDataset(files_, {kept.format}, Import(source, "back"), nullptr, {});
  ASSERT_TRUE(back.ok()) << back.status();
  const Values expected = ReadValues(scratch_.Path("origin"));
  const Values found = ReadValues(scratch_.Path("back"));
  ASSERT_EQ(expected.edges.size(), 16000u);
  EXPECT_EQ(found.edges, expected.edges);
  if (!kept.nodes) return;
  EXPECT_EQ(found.labels, expected.labels);
  if (kept.split) {
    EXPECT_EQ(found.split, expected.split);
  }
  ASSERT_EQ(found.features.size(), expected.features.size());
  for (size_t i = 0; i < found.features.size(); ++i) {
    ASSERT_NEAR(found.features[i], expected.features[i],
                std::abs(expected.features[i]) * kept.precision)
        << i;
  }
}

std::string CaseName(
    const testing::TestParamInfo<RoundTripTest::ParamType>& info) {
  std::string name = std::get<0>(info.param).format;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return absl::StrCat(name, std::get<1>(info.param) ? "_dataset" : "_list");
}

INSTANTIATE_TEST_SUITE_P(
    Formats, RoundTripTest,
    testing::Combine(testing::Values(Kept{"numpy"}, Kept{"edge-list", false},
                                     Kept{"graphbolt"}, Kept{"ginex"},
                                     Kept{"diskgnn"}, Kept{"ogb"},
                                     Kept{"mag240m", true, true, 0x1p-11},
                                     Kept{"igb", true, false}),
                     testing::Bool()),
    CaseName);

TEST_F(WriteFormatTest, ChoosesTheFormat) {
  ASSERT_TRUE(Write("", OpenList, "one").ok());
  EXPECT_EQ(RecognizeFormat(files_, scratch_.Path("one"))->format, "numpy");
  ASSERT_TRUE(Write("", OpenTwoTypes, "two").ok());
  EXPECT_EQ(RecognizeFormat(files_, scratch_.Path("two"))->format, "graphbolt");
}

TEST_F(WriteFormatTest, NamesTheFormatsThatCanBeWritten) {
  const absl::Status status = Write("parquet", OpenList, "out");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.message(),
            "the format parquet cannot be written; diskgnn, edge-list, ginex, "
            "graphbolt, igb, mag240m, numpy, ogb can");
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(WriteFormatTest, NamesTheFormatThatCannotHoldTheGraph) {
  for (const char* const format :
       {"numpy", "edge-list", "ginex", "diskgnn", "ogb", "mag240m", "igb"}) {
    const absl::Status status = Write(format, OpenTwoTypes, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("the format ", format)));
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

/// The graph with other labels: nodes 3, 13, 23, ... have none, and some
/// multi-label rows have unknown labels.
class ManyLabelsTest : public WriteFormatTest,
                       public testing::WithParamInterface<store::LabelKind> {
 protected:
  static constexpr int64_t kWidth = 11;

  ManyLabelsTest() {
    for (int64_t i = 0; i < kNodes * kWidth; ++i) {
      const float value = GetParam() == store::LabelKind::kTargets
                              ? static_cast<float>(i % 97) / 8 - 3
                              : static_cast<float>(i % 5 % 2);
      labels_.push_back(i / kWidth % 10 == 3 || IsUnknown(i) ? NAN : value);
    }
  }

  static bool IsUnknown(int64_t i) {
    return GetParam() == store::LabelKind::kMultiLabel && i % 17 == 4;
  }

  absl::StatusOr<SourceGraph> Open(ImportContext& context) {
    absl::StatusOr<SourceGraph> graph = OpenList(context);
    if (!graph.ok()) return graph;
    store::ArrayHeader header;
    header.type = {store::ElementType::Kind::kFloat, 4};
    header.shape = {kNodes, kWidth};
    graph->nodes[0].labels =
        ArrayReader::ReadRaw(
            io::NewMemoryFile(
                std::string(reinterpret_cast<const char*>(labels_.data()),
                            labels_.size() * sizeof(float)),
                "labels"),
            header)
            .value();
    graph->nodes[0].label_kind = GetParam();
    return graph;
  }

  std::vector<float> labels_;
};

TEST_P(ManyLabelsTest, ComeBackFromFormatsThatHoldThem) {
  const auto open = [&](ImportContext& context) { return Open(context); };
  const auto origin =
      ImportGraph(files_, Import("made", "origin"), open, nullptr, {});
  ASSERT_TRUE(origin.ok()) << origin.status();
  const auto dataset = *store::Dataset::Open(files_, scratch_.Path("origin"));
  const auto open_dataset = [&](ImportContext&) {
    return OpenDatasetAsSource(files_, *dataset);
  };
  for (const char* const format : {"numpy", "ogb"}) {
    for (const bool from_dataset : {false, true}) {
      const absl::Status status = from_dataset
                                      ? Write(format, open_dataset, "out")
                                      : Write(format, open, "out");
      ASSERT_TRUE(status.ok()) << status;
      ImportOptions options = Import("out", "back");
      options.label_kind = GetParam();
      const auto back = ImportDataset(files_, {format}, options, nullptr, {});
      ASSERT_TRUE(back.ok()) << back.status();
      const store::NodeTypeEntry& wanted = origin->manifest.node_types[0];
      const store::NodeTypeEntry& found = back->manifest.node_types[0];
      EXPECT_EQ(found.label_width, kWidth);
      EXPECT_EQ(found.labels.shape, wanted.labels.shape);
      EXPECT_EQ(found.labels.crc_file_crc32c, wanted.labels.crc_file_crc32c);
      ASSERT_TRUE(files_.RemoveTree(scratch_.Path("out")).ok());
      ASSERT_TRUE(files_.RemoveTree(scratch_.Path("back")).ok());
    }
  }
}

TEST_P(ManyLabelsTest, AreRefusedByFormatsThatDoNotHoldThem) {
  const auto open = [&](ImportContext& context) { return Open(context); };
  for (const char* const format :
       {"ginex", "diskgnn", "igb", "mag240m", "graphbolt"}) {
    const absl::Status status = Write(format, open, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("are ", Name(GetParam()),
                                       "; the format ", format)));
  }
}

TEST_P(ManyLabelsTest, WhatIsNoLabelIsRefusedByItsPlace) {
  labels_[5 * kWidth + 2] = INFINITY;
  const auto open = [&](ImportContext& context) { return Open(context); };
  for (const char* const format : {"numpy", "ogb"}) {
    const absl::Status status = Write(format, open, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("labels: [5, 2] is inf, no label"));
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ManyLabelsTest,
                         testing::Values(store::LabelKind::kMultiLabel,
                                         store::LabelKind::kTargets));

TEST_F(WriteFormatTest, LabelsThatAreNoClassesAreRefused) {
  const auto open = [](ImportContext& context) {
    auto graph = OpenList(context);
    graph->nodes[0].label_kind = store::LabelKind::kTargets;
    return graph;
  };
  for (const char* const format : {"igb", "graphbolt"}) {
    const absl::Status status = Write(format, open, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are targets"));
  }
  EXPECT_TRUE(Write("edge-list", open, "out").ok());
}

TEST_F(WriteFormatTest, IdsLieBesideTheFilesOfTheFormat) {
  for (const bool text : {false, true}) {
    ASSERT_TRUE(io::WriteFileAtomically(files_, scratch_.Path("edges.txt"),
                                        text ? "b a\nccc a\n" : "-5 70\n9 70\n")
                    .ok());
    FormatOptions relabel;
    relabel.edge_list.relabel = true;
    const auto imported =
        ImportDataset(files_, {"edge-list", relabel},
                      Import("edges.txt", "relabeled"), nullptr, {});
    ASSERT_TRUE(imported.ok()) << imported.status();
    const auto dataset =
        *store::Dataset::Open(files_, scratch_.Path("relabeled"));
    const auto open = [&](ImportContext&) {
      return OpenDatasetAsSource(files_, *dataset);
    };
    const absl::Status status = Write("edge-list", open, "out");
    ASSERT_TRUE(status.ok()) << status;
    if (text) {
      EXPECT_EQ(*io::ReadWholeFile(files_, scratch_.Path("out/node.ids.txt"),
                                   1 << 20),
                "a\nb\nccc\n");
    } else {
      const auto ids =
          ArrayReader::OpenNpy(files_, scratch_.Path("out/node.ids.npy"));
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_THAT(Integers(ids->get()), testing::ElementsAre(-5, 9, 70));
    }
    ASSERT_TRUE(files_.RemoveTree(scratch_.Path("out")).ok());
    ASSERT_TRUE(files_.RemoveTree(scratch_.Path("relabeled")).ok());
  }
}

TEST_F(WriteFormatTest, DamageInADatasetIsFoundOnTheWayOut) {
  ASSERT_TRUE(
      ImportGraph(files_, Import("made", "origin"), OpenList, nullptr, {})
          .ok());
  const auto dataset = *store::Dataset::Open(files_, scratch_.Path("origin"));
  const auto open = [&](ImportContext&) {
    return OpenDatasetAsSource(files_, *dataset);
  };
  for (const store::ArrayFile* array : dataset->manifest().Arrays()) {
    const std::string path = scratch_.Path("origin/" + array->path);
    const std::string good = *io::ReadWholeFile(files_, path, 1 << 24);
    std::string damaged = good;
    damaged[good.size() - 2] ^= 1;
    ASSERT_TRUE(io::WriteFileAtomically(files_, path, damaged).ok());
    for (const char* const format : {"numpy", "ginex"}) {
      const absl::Status status = Write(format, open, "out");
      EXPECT_TRUE(absl::IsDataLoss(status)) << array->path << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      EXPECT_THAT(Entries(), testing::ElementsAre("origin"));
    }
    ASSERT_TRUE(io::WriteFileAtomically(files_, path, good).ok());
  }
  EXPECT_TRUE(Write("numpy", open, "out").ok());
}

TEST_F(WriteFormatTest, LeavesWhatIsThere) {
  ASSERT_TRUE(Write("edge-list", OpenList, "out").ok());
  const absl::Status status = Write("numpy", OpenList, "out/");
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(Entries("out"), testing::ElementsAre("edges.txt"));
}

TEST_F(WriteFormatTest, OptionsAreChecked) {
  const auto write = [&](const WriteFormatOptions& options) {
    return WriteFormat(files_, options, OpenList, nullptr, {});
  };
  EXPECT_TRUE(absl::IsInvalidArgument(write({"", "numpy", kMemory})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(write({scratch_.Path("out"), "numpy", 1000})));
}

TEST_F(WriteFormatTest, CancellationLeavesNothing) {
  for (const char* const format : {"numpy", "ginex"}) {
    stop_ = std::stop_source();
    const auto open = [&](ImportContext& context) {
      auto graph = OpenList(context);
      stop_.request_stop();
      return graph;
    };
    const absl::Status status = Write(format, open, "out");
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

TEST_F(WriteFormatTest, ErrorsOfTheSourceComeThroughAndItsScratchGoes) {
  const auto open = [](ImportContext& context) -> absl::StatusOr<SourceGraph> {
    const auto path = context.NewScratchPath("unpacked");
    EXPECT_TRUE(path.ok());
    EXPECT_TRUE(
        io::WriteFileAtomically(context.files(), *path, "something").ok());
    return absl::DataLossError("the source is torn");
  };
  EXPECT_TRUE(absl::IsDataLoss(Write("numpy", open, "out")));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(WriteFormatTest, ADiskWithoutRoomShowsBeforeAnythingIsWritten) {
  const auto open = [](ImportContext& context) {
    GenerateOptions options = Options();
    options.num_edges = int64_t{1} << 44;
    return OpenGenerated(context, options);
  };
  for (const char* const format :
       {"numpy", "edge-list", "graphbolt", "diskgnn"}) {
    const absl::Status status = Write(format, open, "out");
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are free"));
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

}  // namespace
}  // namespace hearth::ingest
