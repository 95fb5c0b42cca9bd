#include "engine/ingest/generate/generated_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::HasSubstr;

/// Items of five bytes: byte b of item i is 5 * i + b.
class Counting : public ComputedItems {
 public:
  int64_t num_items() const override { return 7; }
  int64_t item_bytes() const override { return 5; }
  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    EXPECT_EQ(out.size() % 5, 0u);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(first * 5 + static_cast<int64_t>(i));
    }
  }
};

TEST(ComputedFileTest, GivesTheSameBytesHoweverItIsRead) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  for (size_t offset = 0; offset <= 35; ++offset) {
    for (size_t count = 0; offset + count <= 35; ++count) {
      std::vector<std::byte> out(count);
      ASSERT_TRUE(file->Read(offset, absl::MakeSpan(out)).ok());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i], static_cast<std::byte>(offset + i))
            << offset << " " << count;
      }
    }
  }
}

TEST(ComputedFileTest, EndsWhereItsItemsEnd) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  std::vector<std::byte> out(2);
  const absl::Status status = file->Read(34, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("made up: ends at byte 35"));
  EXPECT_TRUE(absl::IsDataLoss(file->Read(UINT64_MAX, absl::MakeSpan(out))));
}

TEST(ComputedFileTest, IsAFileOfThatSize) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  const auto info = file->Info();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->size_bytes, 35u);
  EXPECT_TRUE(info->is_regular);
  EXPECT_EQ(file->path(), "made up");
}

/// Options of tests of the arrays of nodes, with hardly any edges.
GenerateOptions NodeOptions() {
  GenerateOptions options;
  options.num_nodes = 10'007;
  options.num_edges = 1;
  options.feature_dim = 33;
  options.seed = 4;
  return options;
}

template <typename T>
std::vector<T> All(const ComputedItems& items) {
  std::vector<T> values(
      static_cast<size_t>(items.num_items() * items.item_bytes()) / sizeof(T));
  items.Compute(0, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                  values.size() * sizeof(T)));
  return values;
}

template <typename T>
std::vector<T> FeaturesOf(const GenerateOptions& options) {
  return All<T>(*NewGeneratedFeatures(options, GeneratedClasses(options)));
}

TEST(GeneratedFeaturesTest, OtherTypesHoldTheSameRounded) {
  GenerateOptions options = NodeOptions();
  const std::vector<float> wide = FeaturesOf<float>(options);
  options.feature_dtype = store::DType::kFloat16;
  const std::vector<uint16_t> half = FeaturesOf<uint16_t>(options);
  options.feature_dtype = store::DType::kBFloat16;
  const std::vector<uint16_t> bfloat = FeaturesOf<uint16_t>(options);
  ASSERT_EQ(wide.size(), 10'007u * 33u);
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(half[i], store::FloatToFloat16(wide[i]));
    ASSERT_EQ(bfloat[i], store::FloatToBFloat16(wide[i]));
  }
}

TEST(GeneratedFeaturesTest, FollowFromTheSeed) {
  GenerateOptions options = NodeOptions();
  const std::vector<float> one = FeaturesOf<float>(options);
  EXPECT_EQ(one, FeaturesOf<float>(options));
  options.seed = 5;
  EXPECT_NE(one, FeaturesOf<float>(options));
}

TEST(GeneratedFeaturesTest, AreNoiseOfVarianceOneAroundTheCentroids) {
  const GenerateOptions options = NodeOptions();
  const GeneratedClasses classes(options);
  const std::vector<float> rows = FeaturesOf<float>(options);
  const auto dim = static_cast<size_t>(options.feature_dim);
  std::vector<double> sums(16 * dim);
  std::vector<double> squares(16 * dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t label = classes.ClassOf(static_cast<int64_t>(i / dim));
    sums[static_cast<size_t>(label) * dim + i % dim] += rows[i];
    squares[static_cast<size_t>(label) * dim + i % dim] += rows[i] * rows[i];
  }
  double variance = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto count =
        static_cast<double>(classes.SizeOf(static_cast<int64_t>(i / dim)));
    variance += squares[i] / count - std::pow(sums[i] / count, 2);
  }
  EXPECT_NEAR(variance / static_cast<double>(sums.size()), 1, 0.01);
}

TEST(GeneratedLabelsTest, ClassesAreOfEqualSize) {
  const GenerateOptions options = NodeOptions();
  const GeneratedClasses classes(options);
  std::vector<int64_t> counts(16);
  for (const int32_t label : All<int32_t>(*NewGeneratedLabels(classes))) {
    ++counts[static_cast<size_t>(label)];
  }
  for (int64_t label = 0; label < 16; ++label) {
    EXPECT_EQ(counts[static_cast<size_t>(label)], classes.SizeOf(label));
    EXPECT_NEAR(counts[static_cast<size_t>(label)], 10'007 / 16.0, 1);
  }
}

class GeneratedSplitTest : public testing::Test {
 protected:
  absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> Split(
      const GenerateOptions& options) {
    ImportContext context(io::FileSystem::Posix(), 1 << 20, "unused", progress_,
                          stop_.get_token());
    return NewGeneratedSplit(context, options);
  }

  ImportProgress progress_;
  std::stop_source stop_;
};

TEST_F(GeneratedSplitTest, PartsAreAscendingDisjointAndOfTheirSize) {
  GenerateOptions options = NodeOptions();
  options.num_nodes = 300'000;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  std::vector<bool> seen(300'000);
  const size_t sizes[] = {30'000, 15'000, 15'000};
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> part = All<int64_t>(*(*parts)[i]);
    ASSERT_EQ(part.size(), sizes[i]);
    EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
    // Neither the first nodes nor the last.
    EXPECT_NEAR(static_cast<double>(part[part.size() / 2]), 150'000, 5'000);
    for (const int64_t node : part) {
      ASSERT_LT(node, 300'000);
      ASSERT_FALSE(seen[static_cast<size_t>(node)]);
      seen[static_cast<size_t>(node)] = true;
    }
  }
}

TEST_F(GeneratedSplitTest, IsTheSameWhereverAReadBegins) {
  GenerateOptions options = NodeOptions();
  options.num_nodes = 300'000;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  const ComputedItems& part = *(*parts)[1];
  const std::vector<int64_t> whole = All<int64_t>(part);
  for (int64_t first = 0; first < 15'000; first += 379) {
    std::vector<int64_t> some(std::min<int64_t>(5, 15'000 - first));
    part.Compute(first,
                 absl::MakeSpan(reinterpret_cast<std::byte*>(some.data()),
                                some.size() * sizeof(int64_t)));
    ASSERT_TRUE(std::equal(some.begin(), some.end(), whole.begin() + first));
  }
}

TEST_F(GeneratedSplitTest, CanTakeAllNodes) {
  GenerateOptions options = NodeOptions();
  options.num_nodes = 10;
  options.train_share = 0.8;
  options.valid_share = 0.1;
  options.test_share = 0.1;
  const auto parts = Split(options);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ((*parts)[0]->num_items(), 8);
  EXPECT_EQ((*parts)[1]->num_items(), 1);
  EXPECT_EQ((*parts)[2]->num_items(), 1);
}

TEST_F(GeneratedSplitTest, CanBeCancelled) {
  stop_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Split(NodeOptions()).status()));
}

/// Options of tests of whole graphs.
GenerateOptions GraphOptions(bool rmat, int64_t num_communities = 0) {
  GenerateOptions options;
  if (!rmat) options.graph = CommunityGraph{.num_communities = num_communities};
  options.num_nodes = 20'000;
  options.num_edges = 400'000;
  options.undirected = true;
  options.feature_dim = 64;
  options.seed = 21;
  return options;
}

class OpenGeneratedTest : public testing::Test {
 protected:
  absl::StatusOr<ImportResult> Generate(const GenerateOptions& options,
                                        const std::string& folder,
                                        uint64_t memory = 64 << 20) {
    ImportOptions import;
    import.source = kGeneratedSource;
    import.name = "made-up";
    import.destination = scratch_.Path(folder);
    import.memory_limit_bytes = memory;
    import.in_place = in_place_;
    return ImportGraph(
        files_, import,
        [&](ImportContext& context) { return OpenGenerated(context, options); },
        nullptr, {});
  }

  std::string Bytes(const std::string& name) {
    return io::ReadWholeFile(files_, scratch_.Path(name), 64 << 20).value();
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  bool in_place_ = false;
};

TEST_F(OpenGeneratedTest, BecomesADataset) {
  for (const store::DType dtype :
       {store::DType::kFloat32, store::DType::kFloat16,
        store::DType::kBFloat16}) {
    GenerateOptions options = GraphOptions(true);
    options.feature_dtype = dtype;
    const auto result = Generate(options, Name(dtype));
    ASSERT_TRUE(result.ok()) << result.status();
    const auto dataset =
        store::Dataset::Open(files_, scratch_.Path(Name(dtype)));
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const store::Manifest& manifest = (*dataset)->manifest();
    EXPECT_EQ(manifest.transforms[0], options.Describe());
    EXPECT_EQ(manifest.edge_types[0].num_edges, 400'000);
    const store::NodeTypeEntry& nodes = manifest.node_types[0];
    EXPECT_EQ(nodes.num_nodes, 20'000);
    EXPECT_EQ(nodes.label_width, 16);
    EXPECT_EQ(nodes.features.dtype, dtype);
    EXPECT_EQ(nodes.features.shape, (std::vector<int64_t>{20'000, 64}));
    const auto split = (*dataset)->LoadSplit();
    ASSERT_TRUE(split.ok());
    EXPECT_EQ(split->train.size(), 2000u);
    EXPECT_EQ(split->valid.size(), 1000u);
    EXPECT_EQ(split->test.size(), 1000u);
  }
}

TEST_F(OpenGeneratedTest, TheSameSeedGivesTheSameBytesWithAnyMemory) {
  GenerateOptions options = GraphOptions(false);
  const auto one = Generate(options, "one");
  const auto same = Generate(options, "same", 1 << 20);
  options.seed = 22;
  const auto other = Generate(options, "other");
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  EXPECT_EQ(one->manifest.fingerprint, same->manifest.fingerprint);
  EXPECT_NE(one->manifest.fingerprint, other->manifest.fingerprint);
  for (const char* name :
       {"node.features.npy", "node.labels.npy", "node.train.npy",
        "edge.indptr.npy", "edge.indices.npy"}) {
    EXPECT_EQ(Bytes(std::string("one/") + name),
              Bytes(std::string("same/") + name));
    EXPECT_NE(Bytes(std::string("one/") + name),
              Bytes(std::string("other/") + name));
  }
}

TEST_F(OpenGeneratedTest, RefusesBadOptions) {
  GenerateOptions options = GraphOptions(true);
  options.num_nodes = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Generate(options, "bad").status()));
  EXPECT_TRUE(absl::IsNotFound(files_.Stat(scratch_.Path("bad")).status()));
}

TEST_F(OpenGeneratedTest, RefusesCentroidsThatDoNotFit) {
  GenerateOptions options = GraphOptions(true);
  options.num_classes = 20'000;
  const absl::Status status = Generate(options, "big", 1 << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("20000 classes need"));
}

TEST_F(OpenGeneratedTest, CannotStayInPlace) {
  in_place_ = true;
  const absl::Status status = Generate(GraphOptions(true), "placed").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("generated/node_feat"));
}

/// A generated graph in memory, and the accuracy of a classifier that knows the
/// mean row of each class: the best that a linear model can learn.
class Learner {
 public:
  explicit Learner(const std::string& folder) {
    io::FileSystem& files = io::FileSystem::Posix();
    dataset_ = store::Dataset::Open(files, folder).value();
    features_ = dataset_->LoadFeatures(store::Residency::kMemory).value();
    topology_ = dataset_->LoadTopology(store::Residency::kMemory).value();
    const store::Labels labels = dataset_->LoadLabels().value();
    labels_.assign(labels.view().classes.begin(), labels.view().classes.end());
    split_ = dataset_->LoadSplit().value();
    dim_ = static_cast<size_t>(features_->dim());
  }

  /// Test accuracy of the nearest mean of the training nodes' rows.
  double Accuracy(bool of_neighbors) const {
    std::vector<double> means(16 * dim_);
    std::vector<double> counts(16);
    for (const store::NodeId node : split_.train) {
      const std::vector<double> row = Row(node, of_neighbors);
      const auto label = static_cast<size_t>(labels_[node]);
      ++counts[label];
      for (size_t i = 0; i < dim_; ++i) means[label * dim_ + i] += row[i];
    }
    for (size_t i = 0; i < means.size(); ++i) means[i] /= counts[i / dim_];
    double right = 0;
    for (const store::NodeId node : split_.test) {
      const size_t found = Nearest(means, Row(node, of_neighbors));
      right += found == static_cast<size_t>(labels_[node]) ? 1 : 0;
    }
    return right / static_cast<double>(split_.test.size());
  }

 private:
  /// The node's row, plus the mean of its in-neighbors' rows if `of_neighbors`.
  std::vector<double> Row(store::NodeId node, bool of_neighbors) const {
    std::vector<double> row(dim_);
    Add(node, 1, row);
    const store::Topology& topology = topology_->view();
    if (!of_neighbors || topology.InDegree(node) == 0) return row;
    const auto& indices = std::get<absl::Span<const int32_t>>(topology.indices);
    const double weight = 1.0 / static_cast<double>(topology.InDegree(node));
    for (int64_t i = topology.indptr[node]; i < topology.indptr[node + 1];
         ++i) {
      Add(indices[static_cast<size_t>(i)], weight, row);
    }
    return row;
  }

  void Add(store::NodeId node, double weight, std::vector<double>& row) const {
    const auto* from = reinterpret_cast<const float*>(
        features_->rows() + node * features_->row_bytes());
    for (size_t i = 0; i < dim_; ++i) row[i] += weight * from[i];
  }

  size_t Nearest(const std::vector<double>& means,
                 const std::vector<double>& row) const {
    size_t best = 0;
    double least = 1e300;
    for (size_t label = 0; label < 16; ++label) {
      double distance = 0;
      for (size_t i = 0; i < dim_; ++i) {
        const double difference = means[label * dim_ + i] - row[i];
        distance += difference * difference;
      }
      if (distance < least) {
        least = distance;
        best = label;
      }
    }
    return best;
  }

  std::unique_ptr<store::Dataset> dataset_;
  std::unique_ptr<store::LoadedFeatures> features_;
  std::unique_ptr<store::LoadedTopology> topology_;
  std::vector<int32_t> labels_;
  store::Split split_;
  size_t dim_ = 0;
};

TEST_F(OpenGeneratedTest, LabelsFollowFromFeaturesAndBetterFromNeighbors) {
  for (const auto& [folder, options] :
       {std::pair<std::string, GenerateOptions>{"rmat", GraphOptions(true)},
        {"communities", GraphOptions(false)},
        {"apart", GraphOptions(false, 50)}}) {
    ASSERT_TRUE(Generate(options, folder).ok());
    const Learner learner(scratch_.Path(folder));
    const double alone = learner.Accuracy(false);
    const double with_neighbors = learner.Accuracy(true);
    RecordProperty(folder + "_alone", std::to_string(alone));
    RecordProperty(folder + "_with_neighbors", std::to_string(with_neighbors));
    // Guessing gives 1 in 16.
    EXPECT_GT(alone, 0.2) << folder;
    EXPECT_LT(alone, 0.6) << folder;
    EXPECT_GT(with_neighbors, alone + 0.15) << folder;
    EXPECT_LT(with_neighbors, 0.99) << folder;
  }
}

}  // namespace

}  // namespace hearth::ingest
