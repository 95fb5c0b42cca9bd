#include "engine/ingest/formats/igb.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/formats/imported_graph_fixture.h"
#include "engine/io/file_system.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(IdPermutationTest, HasEveryIdOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 31, 32, 33, 1000, 65537}) {
    const IdPermutation permutation(size, 7);
    std::vector<bool> seen(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t id = permutation[i];
      ASSERT_GE(id, 0);
      ASSERT_LT(id, size);
      ASSERT_FALSE(seen[static_cast<size_t>(id)]) << size << " " << id;
      seen[static_cast<size_t>(id)] = true;
    }
  }
}

TEST(IdPermutationTest, IsThatOfItsSeed) {
  const auto all = [](uint64_t seed) {
    const IdPermutation permutation(1000, seed);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 1000; ++i) ids.push_back(permutation[i]);
    return ids;
  };
  EXPECT_EQ(all(1), all(1));
  EXPECT_NE(all(1), all(2));
  EXPECT_NE(all(1), all(uint64_t{1} << 32 | 1));
}

TEST(IdPermutationTest, EveryOrderOfFewIdsComesUp) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const IdPermutation permutation(4, seed);
    orders.insert(
        {permutation[0], permutation[1], permutation[2], permutation[3]});
  }
  EXPECT_EQ(orders.size(), 24u);
}

TEST(IdPermutationTest, TheFirstPositionsHaveIdsFromAllOver) {
  const int64_t size = 1'000'000;
  const IdPermutation permutation(size, 3);
  constexpr int kBuckets = 100, kDrawn = 100'000;
  std::vector<int> counts(kBuckets);
  for (int64_t i = 0; i < kDrawn; ++i) {
    ++counts[static_cast<size_t>(permutation[i] * kBuckets / size)];
  }
  double chi_squared = 0;
  for (const int count : counts) {
    chi_squared += std::pow(count - kDrawn / kBuckets, 2) * kBuckets / kDrawn;
  }
  // Bounds for 99 degrees of freedom, exceeded once in about ten thousand
  // times.
  EXPECT_GT(chi_squared, 45);
  EXPECT_LT(chi_squared, 160);
}

TEST(IdPermutationTest, HugeRangesAreFine) {
  const int64_t size = INT64_MAX;
  const IdPermutation permutation(size, 3);
  for (const int64_t i : {int64_t{0}, int64_t{1} << 40, size - 1}) {
    EXPECT_GE(permutation[i], 0);
    EXPECT_LT(permutation[i], size);
  }
}

TEST(ComputedFileTest, IdsCountOrFollowAnOrder) {
  const auto file = NewIdFile("ids", 5, 3, std::nullopt);
  std::vector<int64_t> ids(3);
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(ids.data()),
                                    24);
  ASSERT_TRUE(file->Read(0, bytes).ok());
  EXPECT_THAT(ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(file->Info()->size_bytes, 24u);
  EXPECT_TRUE(absl::IsDataLoss(file->Read(8, bytes)));
  EXPECT_TRUE(absl::IsDataLoss(file->Read(UINT64_MAX, bytes)));
  const IdPermutation order(10, 1);
  ASSERT_TRUE(NewIdFile("ids", 5, 3, order)->Read(0, bytes).ok());
  EXPECT_THAT(ids, ElementsAre(order[5], order[6], order[7]));
}

TEST(ComputedFileTest, AnyBytesOfIdsCanBeRead) {
  const auto file = NewIdFile("ids", int64_t{1} << 40 | 7, 2, std::nullopt);
  std::array<std::byte, 16> all;
  ASSERT_TRUE(file->Read(0, absl::MakeSpan(all)).ok());
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t end = begin; end <= 16; ++end) {
      std::vector<std::byte> some(end - begin);
      ASSERT_TRUE(file->Read(begin, absl::MakeSpan(some)).ok());
      EXPECT_TRUE(some.empty() ||
                  std::memcmp(some.data(), &all[begin], some.size()) == 0);
    }
  }
}

TEST(ComputedFileTest, WhatIsPaddedIsAllOnes) {
  const auto file = NewPaddedFile(io::NewMemoryFile("abcdef"), 3, 8);
  const std::string expected = "abc\xff\xff\xff\xff\xff";
  EXPECT_EQ(file->Info()->size_bytes, 8u);
  for (size_t begin = 0; begin <= 8; ++begin) {
    std::string some(8 - begin, '\0');
    ASSERT_TRUE(file->Read(begin, absl::MakeSpan(
                                      reinterpret_cast<std::byte*>(some.data()),
                                      some.size()))
                    .ok());
    EXPECT_EQ(some, expected.substr(begin));
  }
  std::array<std::byte, 2> beyond;
  EXPECT_TRUE(absl::IsDataLoss(file->Read(7, absl::MakeSpan(beyond))));
}

ImportFolder::Choices With(int num_classes,
                           std::optional<uint64_t> split_seed = std::nullopt,
                           const std::string& source = "") {
  ImportFolder::Choices choices;
  choices.options.igb.num_classes = num_classes;
  choices.options.igb.split_seed = split_seed;
  choices.source = source;
  return choices;
}

/// Features by the formula in the fixtures' facts.json.
std::vector<double> Features(int place, int64_t num_nodes) {
  std::vector<double> features;
  for (int64_t row = 0; row < num_nodes; ++row) {
    for (int column = 0; column < 1024; ++column) {
      features.push_back(64.0 * place + static_cast<double>(row) +
                         column / 1024.0);
    }
  }
  return features;
}

std::vector<int64_t> Range(int64_t first, int64_t end) {
  std::vector<int64_t> ids;
  for (int64_t id = first; id < end; ++id) ids.push_back(id);
  return ids;
}

/// Number of labels up to the last one.
int64_t EndOfLabels(const std::vector<int64_t>& labels) {
  auto end = static_cast<int64_t>(labels.size());
  while (end > 0 && labels[static_cast<size_t>(end - 1)] < 0) --end;
  return end;
}

void ExpectSplit(const ImportedNodes& papers) {
  const int64_t end = EndOfLabels(papers.labels);
  const int64_t train = end * 3 / 5, valid = end / 5;
  EXPECT_EQ(papers.split[0], Range(0, train));
  EXPECT_EQ(papers.split[1], Range(train, train + valid));
  EXPECT_EQ(papers.split[2], Range(train + valid, end));
}

class IgbFormatTest : public testing::Test {
 protected:
  void ExpectRefused(absl::StatusCode code, const std::string& message) {
    const absl::Status status = folder_.Import({.format = "igb"}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  ImportFolder folder_{"igb_tiny/tiny"};
};

TEST_F(IgbFormatTest, OneTypeIsReadAsIgbReadsIt) {
  for (const std::string source : {"", "processed"}) {
    for (const int num_classes : {19, 2983}) {
      const auto graph =
          folder_.Import(With(num_classes, std::nullopt, source));
      ASSERT_TRUE(graph.ok()) << graph.status();
      EXPECT_EQ(Sorted(graph->edges.at("edge")),
                ExpectedEdges("igb_tiny/expected/"
                              "edges.paper___cites___paper.npy"));
      const ImportedNodes& papers = graph->nodes.at("node");
      EXPECT_EQ(papers.num_nodes, 20);
      EXPECT_EQ(papers.features, Features(0, 20));
      EXPECT_EQ(papers.labels,
                ExpectedInts(num_classes == 19
                                 ? "igb_tiny/expected/labels.paper.19.npy"
                                 : "igb_tiny/expected/labels.paper.2K.npy"));
      ExpectSplit(papers);
    }
  }
}

void ExpectHeterogeneous(const std::string& fixture, const std::string& size,
                         const std::vector<std::string>& types, bool in_place) {
  const ImportFolder folder(fixture + "/" + size);
  const auto graph = folder.Import({.in_place = in_place});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::string expected = fixture + "/expected/";
  ASSERT_EQ(graph->nodes.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ImportedNodes& nodes = graph->nodes.at(types[i]);
    EXPECT_EQ(nodes.features, Features(static_cast<int>(i), nodes.num_nodes))
        << types[i];
    EXPECT_EQ(nodes.labels.empty(), types[i] != "paper");
  }
  for (const auto& [type, edges] : graph->edges) {
    std::string name = type;
    for (size_t at; (at = name.find(':')) != std::string::npos;) {
      name.replace(at, 1, "___");
    }
    EXPECT_EQ(Sorted(edges), ExpectedEdges(expected + "edges." + name + ".npy"))
        << type;
  }
  const ImportedNodes& papers = graph->nodes.at("paper");
  EXPECT_EQ(papers.labels, ExpectedInts(expected + "labels.paper.19.npy"));
  ExpectSplit(papers);
}

TEST_F(IgbFormatTest, SeveralTypesAreReadAsIgbhReadsThem) {
  ExpectHeterogeneous("igbh_tiny", "tiny",
                      {"paper", "author", "institute", "fos"}, false);
}

TEST_F(IgbFormatTest, FilesWithoutHeadersAreKnown) {
  for (const bool in_place : {false, true}) {
    ExpectHeterogeneous(
        "igbh_large_headerless", "large",
        {"paper", "author", "institute", "fos", "journal", "conference"},
        in_place);
  }
}

TEST_F(IgbFormatTest, EveryRelationIsThere) {
  const ImportFolder folder("igbh_large_headerless/large");
  const auto graph = folder.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> types;
  for (const auto& [type, edges] : graph->edges) types.push_back(type);
  EXPECT_THAT(types,
              ElementsAre("author:affiliated_to:institute", "paper:cites:paper",
                          "paper:published:journal", "paper:topic:fos",
                          "paper:venue:conference", "paper:written_by:author"));
}

TEST_F(IgbFormatTest, ASplitAtRandomIsThatOfItsSeed) {
  const auto split = [&](uint64_t seed) {
    auto graph = folder_.Import(With(19, seed));
    EXPECT_TRUE(graph.ok()) << graph.status();
    EXPECT_THAT(
        graph->manifest.transforms,
        Contains(HasSubstr("at random with seed " + std::to_string(seed))));
    return graph->nodes.at("node").split;
  };
  const auto one = split(1);
  EXPECT_EQ(split(1), one);
  EXPECT_NE(split(2), one);
  std::vector<int64_t> all;
  for (const auto& part : one) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  const auto count = static_cast<int64_t>(all.size());
  EXPECT_EQ(all, Range(0, count));
  EXPECT_EQ(static_cast<int64_t>(one[0].size()), count * 3 / 5);
  EXPECT_EQ(static_cast<int64_t>(one[1].size()), count / 5);
}

TEST_F(IgbFormatTest, LabelsOfTheFirstPapersAloneAreFine) {
  const ImportFolder folder("igbh_large_headerless/large");
  const std::string name = "processed/paper/node_label_2K.npy";
  std::string labels;
  for (const float label : {3.f, 0.f, 1.f, 2.f, 4.f}) {
    labels.append(reinterpret_cast<const char*>(&label), sizeof(label));
  }
  folder.Write(name, labels);
  const auto graph = folder.Import(With(2983));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ImportedNodes& papers = graph->nodes.at("paper");
  EXPECT_THAT(papers.labels, ElementsAre(3, 0, 1, 2, 4, -1, -1, -1, -1));
  EXPECT_THAT(papers.split[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(papers.split[1], ElementsAre(3));
  EXPECT_THAT(papers.split[2], ElementsAre(4));
  EXPECT_THAT(graph->manifest.transforms,
              Contains("node_label_2K.npy: papers from 5 on are without a "
                       "label"));
}

/// An .npy file of float32 labels.
std::string LabelFile(const std::vector<float>& labels) {
  const std::string shape = "(" + std::to_string(labels.size()) + ",)";
  return store::ToBytes(
      {.descr = "<f4", .shape = shape, .data = store::Raw(labels)});
}

/// Labels for all papers: the first 40 have 19 classes, the rest are 0.
class PaddedLabelsTest : public IgbFormatTest {
 protected:
  absl::StatusOr<ImportedGraph> ImportWith(int zeros) {
    std::vector<float> labels;
    for (int i = 0; i < 40; ++i) labels.push_back(static_cast<float>(i % 19));
    labels.resize(labels.size() + static_cast<size_t>(zeros));
    const std::string rows(labels.size() * 1024 * sizeof(float), '\0');
    folder_.Write("processed/paper/node_feat.npy", rows);
    folder_.Write("processed/paper/node_label_19.npy", LabelFile(labels));
    return folder_.Import(With(19));
  }
};

TEST_F(PaddedLabelsTest, ManyZerosAtTheEndAreNoLabels) {
  const auto graph = ImportWith(60);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ImportedNodes& papers = graph->nodes.at("node");
  EXPECT_EQ(EndOfLabels(papers.labels), 40);
  ExpectSplit(papers);
  EXPECT_EQ(papers.split[2].back(), 39);
  EXPECT_THAT(graph->warnings,
              Contains(HasSubstr("the labels from 40 on, 60 in all, are 0")));
}

TEST_F(PaddedLabelsTest, AFewZerosAreLabels) {
  const auto graph = ImportWith(10);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(EndOfLabels(graph->nodes.at("node").labels), 50);
  EXPECT_THAT(graph->warnings, Not(Contains(HasSubstr("padding"))));
}

TEST_F(IgbFormatTest, OtherNumbersOfClassesAreRefused) {
  const absl::Status status = folder_.Import(With(20)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not of 20"));
}

TEST_F(IgbFormatTest, MissingFilesAreNamed) {
  folder_.Remove("processed/paper/node_label_19.npy");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "node_label_19.npy: is missing");
  folder_.Remove("processed/paper__cites__paper/edge_index.npy");
  folder_.Write("processed/paper/node_label_19.npy",
                folder_.Read("processed/paper/node_label_2K.npy"));
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "edge_index.npy: is missing");
  folder_.Remove("processed/paper");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "has neither processed/paper/node_feat.npy nor");
}

TEST_F(IgbFormatTest, AFileWithoutAHeaderHasWholeRows) {
  const std::string name = "processed/paper/node_feat.npy";
  folder_.Write(name, std::string(20 * 4096 - 4, '\0'));
  ExpectRefused(absl::StatusCode::kDataLoss,
                "node_feat.npy: has no .npy header and 81916 bytes");
}

TEST_F(IgbFormatTest, MoreLabelsThanPapersAreRefused) {
  folder_.Write("processed/paper/node_label_19.npy", std::string(84, '\0'));
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "node_label_19.npy: has shape (21,); with 20 papers");
}

TEST_F(IgbFormatTest, EdgesInRowsAreRefused) {
  const std::string name = "processed/paper__cites__paper/edge_index.npy";
  folder_.Replace(name, "(30, 2)", "(2, 30)");
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "edge_index.npy: has shape (2, 30); (E, 2) is needed");
}

TEST_F(IgbFormatTest, AnIdOutOfRangeIsRefused) {
  const std::string name = "processed/paper__cites__paper/edge_index.npy";
  std::string edges = folder_.Read(name);
  edges[edges.size() - 8] = 20;
  folder_.Write(name, edges);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "[29, 1] is 20; node ids are 0 .. 19");
}

TEST_F(IgbFormatTest, EdgesOfNodesThatAreNotThereAreRefused) {
  const ImportFolder folder("igbh_tiny/tiny");
  folder.Remove("processed/fos");
  const absl::Status status = folder.Import().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has edges paper__topic__fos, but no fos/"));
}

}  // namespace

}  // namespace hearth::ingest
