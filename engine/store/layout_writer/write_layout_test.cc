#include "engine/store/layout_writer/write_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/array_reader.h"
#include "engine/store/dataset.h"
#include "engine/store/generate/open_generated.h"
#include "engine/store/label_kind.h"
#include "engine/store/layout/import_dataset.h"
#include "engine/store/layout_writer/dataset_source.h"
#include "engine/store/layout_writer/source_edges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
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

/// A graph that layouts of one type cannot hold.
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

/// All values of the nodes with features, or the first, and of the edges that
/// there are.
struct Values {
  std::vector<std::pair<int64_t, int64_t>> edges;
  std::vector<double> features;
  std::vector<int64_t> labels;
  std::array<std::vector<int64_t>, 3> split;
};

Values ReadValues(const std::string& path) {
  io::FileSystem& files = io::FileSystem::Posix();
  const auto dataset = Dataset::Open(files, path);
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

class WriteLayoutTest : public testing::Test {
 protected:
  absl::Status Write(std::optional<Layout> layout, OpenSource open,
                     const std::string& name) {
    return WriteLayout(files_, {scratch_.Path(name), layout, kMemory}, open,
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

/// What of a graph a layout brings back.
struct Kept {
  Layout layout;
  bool nodes = true;
  bool split = true;
  /// Of features, relative.
  double precision = 0;
};

class RoundTripTest
    : public WriteLayoutTest,
      public testing::WithParamInterface<std::tuple<Kept, bool>> {};

TEST_P(RoundTripTest, ComesBackAsItWentOut) {
  const auto& [kept, from_dataset] = GetParam();
  ASSERT_TRUE(
      ImportGraph(files_, Import("made", "origin"), OpenList, nullptr, {})
          .ok());
  const auto dataset = Dataset::Open(files_, scratch_.Path("origin"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto open = [&, list = !from_dataset](ImportContext& context) {
    return list ? OpenList(context) : OpenDatasetAsSource(files_, **dataset);
  };
  const absl::Status status = Write(kept.layout, open, "out");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Entries(), testing::UnorderedElementsAre("origin", "out"));
  const std::string source =
      kept.layout == Layout::kEdgeList ? "out/edges.txt" : "out";
  const auto recognized = RecognizeLayout(files_, scratch_.Path(source));
  ASSERT_TRUE(recognized.ok()) << recognized.status();
  EXPECT_EQ(recognized->layout, kept.layout);
  const auto back =
      ImportDataset(files_, kept.layout, Import(source, "back"), nullptr, {});
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
  std::string name(Name(std::get<0>(info.param).layout));
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return absl::StrCat(name, std::get<1>(info.param) ? "_dataset" : "_list");
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RoundTripTest,
    testing::Combine(testing::Values(Kept{Layout::kNumpy},
                                     Kept{Layout::kEdgeList, false},
                                     Kept{Layout::kGraphBolt},
                                     Kept{Layout::kGinex},
                                     Kept{Layout::kDiskGnn}),
                     testing::Bool()),
    CaseName);

TEST_F(WriteLayoutTest, ChoosesTheLayout) {
  ASSERT_TRUE(Write(std::nullopt, OpenList, "one").ok());
  EXPECT_EQ(RecognizeLayout(files_, scratch_.Path("one"))->layout,
            Layout::kNumpy);
  ASSERT_TRUE(Write(std::nullopt, OpenTwoTypes, "two").ok());
  EXPECT_EQ(RecognizeLayout(files_, scratch_.Path("two"))->layout,
            Layout::kGraphBolt);
}

TEST_F(WriteLayoutTest, NamesTheLayoutThatCannotHoldTheGraph) {
  for (const Layout layout :
       {Layout::kNumpy, Layout::kEdgeList, Layout::kGinex, Layout::kDiskGnn}) {
    const absl::Status status = Write(layout, OpenTwoTypes, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("the layout ", Name(layout))));
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

TEST_F(WriteLayoutTest, LabelsThatAreNoClassesAreRefused) {
  const auto open = [](ImportContext& context) {
    auto graph = OpenList(context);
    graph->nodes[0].label_kind = LabelKind::kTargets;
    return graph;
  };
  for (const Layout layout : {Layout::kNumpy, Layout::kGraphBolt}) {
    const absl::Status status = Write(layout, open, "out");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are targets"));
  }
  EXPECT_TRUE(Write(Layout::kEdgeList, open, "out").ok());
}

TEST_F(WriteLayoutTest, LeavesWhatIsThere) {
  ASSERT_TRUE(Write(Layout::kEdgeList, OpenList, "out").ok());
  const absl::Status status = Write(Layout::kNumpy, OpenList, "out/");
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(Entries("out"), testing::ElementsAre("edges.txt"));
}

TEST_F(WriteLayoutTest, OptionsAreChecked) {
  const auto write = [&](const WriteLayoutOptions& options) {
    return WriteLayout(files_, options, OpenList, nullptr, {});
  };
  EXPECT_TRUE(absl::IsInvalidArgument(write({"", Layout::kNumpy, kMemory})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      write({scratch_.Path("out"), Layout::kNumpy, 1000})));
}

TEST_F(WriteLayoutTest, CancellationLeavesNothing) {
  for (const Layout layout : {Layout::kNumpy, Layout::kGinex}) {
    stop_ = std::stop_source();
    const auto open = [&](ImportContext& context) {
      auto graph = OpenList(context);
      stop_.request_stop();
      return graph;
    };
    const absl::Status status = Write(layout, open, "out");
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

TEST_F(WriteLayoutTest, ErrorsOfTheSourceComeThroughAndItsScratchGoes) {
  const auto open = [](ImportContext& context) -> absl::StatusOr<SourceGraph> {
    const auto path = context.NewScratchPath("unpacked");
    EXPECT_TRUE(path.ok());
    EXPECT_TRUE(
        io::WriteFileAtomically(context.files(), *path, "something").ok());
    return absl::DataLossError("the source is torn");
  };
  EXPECT_TRUE(absl::IsDataLoss(Write(Layout::kNumpy, open, "out")));
  EXPECT_THAT(Entries(), IsEmpty());
}

TEST_F(WriteLayoutTest, ADiskWithoutRoomShowsBeforeAnythingIsWritten) {
  const auto open = [](ImportContext& context) {
    GenerateOptions options = Options();
    options.num_edges = int64_t{1} << 44;
    return OpenGenerated(context, options);
  };
  for (const Layout layout : {Layout::kNumpy, Layout::kEdgeList,
                              Layout::kGraphBolt, Layout::kDiskGnn}) {
    const absl::Status status = Write(layout, open, "out");
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are free"));
    EXPECT_THAT(Entries(), IsEmpty());
  }
}

}  // namespace
}  // namespace hearth::store
