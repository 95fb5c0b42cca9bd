#include "engine/ingest/export/format_writers.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/ingest/export/dataset_source.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {
namespace {

constexpr int64_t kNodes = 500;
constexpr int64_t kEdges = 4000;
constexpr int64_t kDim = 5;

GenerateOptions Options(store::DType dtype = store::DType::kFloat32) {
  GenerateOptions options;
  options.num_nodes = kNodes;
  options.num_edges = kEdges;
  options.feature_dim = kDim;
  options.feature_dtype = dtype;
  return options;
}

template <typename T>
std::vector<T> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

class FormatWritersTest : public testing::Test {
 protected:
  FormatWritersTest()
      : context_(files_, 1 << 20, scratch_.Path("work/scratch"), progress_,
                 {}) {}

  SourceGraph Generated(store::DType dtype = store::DType::kFloat32) {
    return OpenGenerated(context_, Options(dtype)).value();
  }

  std::string Read(const std::string& name) {
    return io::ReadWholeFile(files_, scratch_.Path(name), 64 << 20).value();
  }

  nlohmann::json ReadJson(const std::string& name) {
    return nlohmann::json::parse(Read(name));
  }

  std::vector<int64_t> ReadNpy(const std::string& name) {
    const auto reader =
        ArrayReader::OpenNpy(files_, scratch_.Path(name)).value();
    std::vector<int64_t> values(reader->header().NumElements());
    EXPECT_TRUE(reader->ReadInts(0, absl::MakeSpan(values)).ok());
    return values;
  }

  std::vector<int64_t> Integers(ArrayReader& reader) {
    std::vector<int64_t> values(reader.header().NumElements());
    EXPECT_TRUE(reader.ReadInts(0, absl::MakeSpan(values)).ok());
    return values;
  }

  std::unique_ptr<TorchFile> OpenTorch(const std::string& name) {
    auto file =
        TorchFile::Open(files_.OpenForRead(scratch_.Path(name)).value());
    EXPECT_TRUE(file.ok()) << file.status();
    return std::move(*file);
  }

  /// Elements of an int64 tensor.
  std::vector<int64_t> ReadTensor(const TorchFile& file,
                                  const PickleValue* value) {
    const auto* tensor = value == nullptr ? nullptr : value->As<TorchTensor>();
    if (tensor == nullptr || tensor->type() != TorchType::kInt64) return {};
    const TensorElements elements = file.OpenTensor(*tensor).value();
    std::string bytes(elements.size_bytes, '\0');
    const auto out = absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()),
                                    bytes.size());
    EXPECT_TRUE(elements.file->Read(elements.offset, out).ok());
    return Values<int64_t>(bytes);
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  ImportProgress progress_;
  ImportContext context_;
};

TEST_F(FormatWritersTest, EdgeListHasALineForEachEdge) {
  SourceGraph graph = Generated();
  ASSERT_TRUE(WriteEdgeList(context_, graph, scratch_.Path("list")).ok());
  EdgeBlock edges;
  ASSERT_TRUE(graph.edges[0].edges->Read(0, kEdges, edges).ok());
  std::string expected = "# Nodes: 500 Edges: 4000\n";
  for (size_t i = 0; i < edges.size(); ++i) {
    absl::StrAppend(&expected, edges.sources[i], "\t", edges.destinations[i],
                    "\n");
  }
  EXPECT_EQ(Read("list/edges.txt"), expected);
}

TEST_F(FormatWritersTest, GinexHasRawArraysByDestination) {
  SourceGraph graph = Generated(store::DType::kFloat16);
  EdgeBlock edges;
  ASSERT_TRUE(graph.edges[0].edges->Read(0, kEdges, edges).ok());
  ASSERT_TRUE(WriteGinex(context_, graph, scratch_.Path("ginex")).ok());
  const auto indptr = Values<int64_t>(Read("ginex/indptr.dat"));
  const auto indices = Values<int64_t>(Read("ginex/indices.dat"));
  ASSERT_EQ(indptr.size(), static_cast<size_t>(kNodes + 1));
  ASSERT_EQ(indices.size(), static_cast<size_t>(kEdges));
  std::vector<int64_t> expected;
  for (int64_t node = 0; node < kNodes; ++node) {
    ASSERT_EQ(indptr[node], static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges.destinations[i] == node) expected.push_back(edges.sources[i]);
    }
  }
  EXPECT_EQ(indices, expected);
  const auto features = Values<float>(Read("ginex/features.dat"));
  ASSERT_EQ(features.size(), static_cast<size_t>(kNodes * kDim));
  std::vector<double> rows(features.size());
  ASSERT_TRUE(
      graph.nodes[0].features->ReadFloats(0, absl::MakeSpan(rows)).ok());
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(features[i], rows[i]);
  const auto labels = Values<float>(Read("ginex/labels.dat"));
  const std::vector<int64_t> classes = Integers(*graph.nodes[0].labels);
  for (size_t i = 0; i < classes.size(); ++i) ASSERT_EQ(labels[i], classes[i]);
  const nlohmann::json conf = ReadJson("ginex/conf.json");
  EXPECT_EQ(conf["labels_shape"], nlohmann::json({500, 1}));
  EXPECT_EQ(conf["features_dtype"], "float32");
  EXPECT_EQ(conf["num_classes"], 16);
  const auto split = OpenTorch("ginex/split_idx.pth");
  ASSERT_NE(split, nullptr);
  const char* names[] = {"train", "valid", "test"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ReadTensor(*split, split->root().Find(names[i])),
              Integers(*graph.nodes[0].split[i]));
  }
}

TEST_F(FormatWritersTest, DiskGnnHasItsFiles) {
  SourceGraph graph = Generated(store::DType::kBFloat16);
  ASSERT_TRUE(WriteDiskGnn(context_, graph, scratch_.Path("gnn")).ok());
  const nlohmann::json conf = ReadJson("gnn/conf.json");
  EXPECT_EQ(conf["features_dtype"], "torch.bfloat16");
  EXPECT_EQ(conf["feat_itemsize"], 2);
  EXPECT_EQ(Read("gnn/features.bin").size(), size_t{kNodes * kDim * 2});
  const auto saved = OpenTorch("gnn/graph.pth");
  ASSERT_NE(saved, nullptr);
  const auto* object = saved->root().As<PickleObject>();
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->class_name,
            "dgl.graphbolt.impl.fused_csc_sampling_graph."
            "FusedCSCSamplingGraph");
  const auto* inner = object->state->Find("_c_csc_graph")->As<PickleObject>();
  ASSERT_NE(inner, nullptr);
  const auto* state = inner->state->As<PickleTuple>();
  ASSERT_NE(state, nullptr);
  const PickleValue* tensors = state->items[0]->Find("independent_tensors");
  ASSERT_NE(tensors, nullptr);
  EXPECT_EQ(ReadTensor(*saved, tensors->Find("indptr")),
            Integers(*graph.edges[0].indptr));
  EXPECT_EQ(tensors->Find("indices")->As<TorchTensor>()->shape,
            std::vector<int64_t>{kEdges});
  const auto labels = OpenTorch("gnn/labels.pth");
  const auto* tensor = labels->root().As<TorchTensor>();
  ASSERT_NE(tensor, nullptr);
  const auto elements = labels->OpenTensor(*tensor);
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_EQ(elements->size_bytes, kNodes * sizeof(float));
  ASSERT_TRUE(elements->offset_in_archive.has_value());
  EXPECT_EQ(*elements->offset_in_archive % 64, 0u);
}

TEST_F(FormatWritersTest, GraphBoltNamesItsFilesInMetadata) {
  SourceGraph graph = Generated();
  ASSERT_TRUE(WriteGraphBolt(context_, graph, scratch_.Path("bolt")).ok());
  const nlohmann::json metadata = ReadJson("bolt/metadata.yaml");
  EXPECT_EQ(metadata["graph"]["nodes"],
            nlohmann::json::parse(R"([{"num": 500}])"));
  EXPECT_EQ(metadata["feature_data"][0]["path"], "data/feat.npy");
  EXPECT_EQ(metadata["tasks"][0]["num_classes"], 16);
  const std::string edges = metadata["graph"]["edges"][0]["path"];
  EdgeBlock block;
  ASSERT_TRUE(graph.edges[0].edges->Read(0, kEdges, block).ok());
  std::vector<int64_t> expected = block.sources;
  expected.insert(expected.end(), block.destinations.begin(),
                  block.destinations.end());
  EXPECT_EQ(ReadNpy("bolt/" + edges), expected);
  const std::vector<int64_t> classes = Integers(*graph.nodes[0].labels);
  const nlohmann::json& data = metadata["tasks"][0]["validation_set"][0];
  const std::vector<int64_t> seeds =
      ReadNpy("bolt/" + data["data"][0]["path"].get<std::string>());
  const std::vector<int64_t> labels =
      ReadNpy("bolt/" + data["data"][1]["path"].get<std::string>());
  ASSERT_EQ(seeds.size(), 25u);
  EXPECT_EQ(seeds, Integers(*graph.nodes[0].split[1]));
  for (size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_EQ(labels[i], classes[static_cast<size_t>(seeds[i])]);
  }
}

/// The edges of a dataset, as its own arrays, are the same list, sorted; types
/// stay apart.
TEST_F(FormatWritersTest, DatasetOfSeveralTypesBecomesAHeterograph) {
  ImportOptions options;
  options.source = "generated";
  options.name = "two";
  options.destination = scratch_.Path("two");
  const auto open = [&](ImportContext& context) -> absl::StatusOr<SourceGraph> {
    absl::StatusOr<SourceGraph> graph = OpenGenerated(context, Options());
    if (!graph.ok()) return graph;
    graph->nodes[0].type = "paper";
    graph->nodes.push_back({});
    graph->nodes[1].type = "author";
    graph->nodes[1].num_nodes = kNodes;
    graph->edges[0].type = "writes";
    graph->edges[0].source_type = "author";
    graph->edges[0].destination_type = "paper";
    return graph;
  };
  const auto imported = ImportGraph(files_, options, open, nullptr, {});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto dataset = store::Dataset::Open(files_, scratch_.Path("two"));
  ASSERT_TRUE(dataset.ok());
  auto graph = OpenDatasetAsSource(files_, **dataset);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteGinex(context_, *graph, scratch_.Path("ginex"))));
  const absl::Status status =
      WriteGraphBolt(context_, *graph, scratch_.Path("bolt"));
  ASSERT_TRUE(status.ok()) << status;
  const nlohmann::json metadata = ReadJson("bolt/metadata.yaml");
  EXPECT_EQ(metadata["graph"]["edges"][0]["type"], "author:writes:paper");
  EXPECT_EQ(metadata["graph"]["edges"][0]["path"],
            "edges/author_writes_paper.npy");
  ASSERT_EQ(metadata["feature_data"].size(), 2u);
  EXPECT_EQ(metadata["feature_data"][0]["name"], "feat");
  EXPECT_EQ(metadata["feature_data"][1]["name"], "label");
  EXPECT_EQ(metadata["feature_data"][1]["type"], "paper");
  EXPECT_EQ(metadata["tasks"][0]["train_set"][0]["type"], "paper");
  const std::vector<int64_t> ends =
      ReadNpy("bolt/edges/author_writes_paper.npy");
  const std::vector<int64_t> indptr = Integers(*graph->edges[0].indptr);
  const std::vector<int64_t> indices = Integers(*graph->edges[0].indices);
  ASSERT_EQ(ends.size(), size_t{2 * kEdges});
  for (int64_t node = 0; node < kNodes; ++node) {
    for (int64_t i = indptr[node]; i < indptr[node + 1]; ++i) {
      ASSERT_EQ(ends[i], indices[i]);
      ASSERT_EQ(ends[kEdges + i], node);
    }
  }
}

}  // namespace
}  // namespace hearth::ingest
