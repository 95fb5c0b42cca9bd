#include <stop_token>
#include <string>

#include "engine/ingest/export/format_writers.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

GenerateOptions Options(store::DType dtype) {
  GenerateOptions options;
  options.num_nodes = 1000;
  options.num_edges = 9000;
  options.feature_dim = 7;
  options.feature_dtype = dtype;
  return options;
}

class NumpyWriterTest : public testing::Test {
 protected:
  absl::Status Write(const GenerateOptions& options, const std::string& to,
                     io::FileSystem& files = io::FileSystem::Posix()) {
    ImportContext context(files, 1 << 20, scratch_.Path("work/scratch"),
                          progress_, stop_.get_token());
    absl::StatusOr<SourceGraph> graph = OpenGenerated(context, options);
    if (!graph.ok()) return graph.status();
    return WriteNumpyFolder(context, *graph, to);
  }

  /// Imports the source; the result has its fingerprint.
  absl::StatusOr<ImportResult> Import(OpenSource open, const std::string& to) {
    ImportOptions options;
    options.source = scratch_.path();
    options.name = "test";
    options.destination = to;
    return ImportGraph(io::FileSystem::Posix(), options, open, nullptr, {});
  }

  io::ScratchDirectory scratch_;
  ImportProgress progress_;
  std::stop_source stop_;
};

TEST_F(NumpyWriterTest, ComesBackAsTheSameDataset) {
  for (const store::DType dtype :
       {store::DType::kFloat32, store::DType::kFloat16}) {
    const GenerateOptions options = Options(dtype);
    const std::string folder = scratch_.Path("folder_" + Name(dtype));
    ASSERT_TRUE(Write(options, folder).ok());
    const auto direct = Import(
        [&](ImportContext& context) { return OpenGenerated(context, options); },
        scratch_.Path("direct_" + Name(dtype)));
    const auto back = Import(
        [&](ImportContext& context) {
          return OpenFormat(context, "numpy", folder);
        },
        scratch_.Path("back_" + Name(dtype)));
    ASSERT_TRUE(direct.ok()) << direct.status();
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(direct->manifest.fingerprint, back->manifest.fingerprint);
  }
}

TEST_F(NumpyWriterTest, RefusesWhatIsThere) {
  const absl::Status status =
      Write(Options(store::DType::kFloat32), scratch_.path());
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
}

TEST_F(NumpyWriterTest, RefusesAGraphWithoutLabels) {
  ImportContext context(io::FileSystem::Posix(), 1 << 20,
                        scratch_.Path("work/scratch"), progress_, {});
  auto graph = OpenGenerated(context, Options(store::DType::kFloat32));
  ASSERT_TRUE(graph.ok());
  graph->nodes[0].labels = nullptr;
  const absl::Status status =
      WriteNumpyFolder(context, *graph, scratch_.Path("folder"));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no labels"));
}

TEST_F(NumpyWriterTest, PartsOfTheSplitMayBeAbsent) {
  ImportContext context(io::FileSystem::Posix(), 1 << 20,
                        scratch_.Path("work/scratch"), progress_, {});
  auto graph = OpenGenerated(context, Options(store::DType::kFloat32));
  ASSERT_TRUE(graph.ok());
  graph->nodes[0].split[1] = nullptr;
  graph->nodes[0].split[2] = nullptr;
  const std::string folder = scratch_.Path("folder");
  ASSERT_TRUE(WriteNumpyFolder(context, *graph, folder).ok());
  const auto back = Import(
      [&](ImportContext& opening) {
        return OpenFormat(opening, "numpy", folder);
      },
      scratch_.Path("back"));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->manifest.node_types[0].train.path.empty());
  EXPECT_EQ(back->manifest.node_types[0].valid.path, "");
  EXPECT_EQ(back->manifest.node_types[0].test.path, "");
  graph->nodes[0].split[0] = nullptr;
  EXPECT_THAT(
      std::string(
          WriteNumpyFolder(context, *graph, scratch_.Path("other")).message()),
      HasSubstr("has no training nodes"));
}

TEST_F(NumpyWriterTest, CancellationLeavesNothing) {
  stop_.request_stop();
  const std::string folder = scratch_.Path("folder");
  EXPECT_TRUE(
      absl::IsCancelled(Write(Options(store::DType::kFloat32), folder)));
  io::FileSystem& files = io::FileSystem::Posix();
  EXPECT_TRUE(absl::IsNotFound(files.Stat(folder).status()));
  EXPECT_TRUE(absl::IsNotFound(files.Stat(folder + ".tmp").status()));
}

}  // namespace
}  // namespace hearth::ingest
