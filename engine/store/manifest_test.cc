#include "engine/store/manifest.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/base/crc32c.h"
#include "engine/store/labels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hearth::store {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

ArrayFile Array(const std::string& path, DType dtype,
                std::vector<int64_t> shape) {
  ArrayFile file;
  file.path = path;
  file.dtype = dtype;
  file.data_offset = 128;
  file.file_size_bytes = 128;
  int64_t bytes = SizeOf(dtype);
  for (const int64_t dimension : shape) bytes *= dimension;
  file.file_size_bytes += bytes;
  file.shape = std::move(shape);
  file.header_crc32c = 0xDEADBEEF;
  file.file_id = UINT64_MAX;
  file.crc_block_bytes = 4096;
  file.crc_path = path + ".crc";
  file.crc_file_crc32c = 7;
  return file;
}

Manifest Example() {
  Manifest manifest;
  manifest.name = "caf\xc3\xa9 \"quoted\"";
  manifest.fingerprint = "0123456789abcdef";
  manifest.created_unix_seconds = 1'700'000'000;
  NodeTypeEntry node;
  node.name = "paper";
  node.num_nodes = 2000;
  node.label_width = 3;
  node.features = Array("f.npy", DType::kBFloat16, {2000, 16});
  node.features.path = "/data/f.npy";
  node.features.in_place = true;
  node.features.data_offset = 80;
  node.features.file_size_bytes = 80 + 64'000;
  node.features.modified_ns = -5;
  node.labels = Array("sub/l.npy", DType::kInt32, {2000});
  node.train = Array("t.npy", DType::kInt64, {3});
  node.valid = Array("v.npy", DType::kInt64, {1});
  node.test = Array("e.npy", DType::kInt64, {2});
  NodeTypeEntry author;
  author.name = "author";
  author.num_nodes = 3;
  EdgeTypeEntry edge;
  edge.name = "writes";
  edge.source_type = "author";
  edge.destination_type = "paper";
  edge.num_edges = 4;
  edge.indptr = Array("p.npy", DType::kInt64, {2001});
  edge.indices = Array("i.npy", DType::kInt32, {4});
  manifest.node_types = {node, author};
  manifest.edge_types = {edge};
  manifest.transforms = {"one", "two"};
  return manifest;
}

/// The example with labels of another kind, 9 a node.
Manifest WithLabels(LabelKind kind) {
  Manifest manifest = Example();
  NodeTypeEntry& node = manifest.node_types[0];
  node.label_kind = kind;
  node.label_width = 9;
  node.labels = kind == LabelKind::kMultiLabel
                    ? Array("l.npy", DType::kUint8, {2000, 2})
                    : Array("l.npy", DType::kFloat32, {2000, 9});
  return manifest;
}

/// The example with ids of its papers and names of its authors.
Manifest WithIds() {
  Manifest manifest = Example();
  manifest.node_types[0].ids = Array("ids.npy", DType::kInt64, {2000});
  manifest.node_types[1].id_text = Array("text.npy", DType::kUint8, {5});
  return manifest;
}

/// `body` with a checksum that is right.
std::string Sealed(const json& body) {
  std::string text = body.dump(2);
  text.resize(text.size() - 2);
  const uint32_t crc = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
  return text + absl::StrFormat(",\n  \"crc32c\": \"%08x\"\n}\n", crc);
}

TEST(ManifestTest, ReadsBackWhatItWrote) {
  const std::string text = SerializeManifest(Example());
  const auto parsed = ParseManifest(text, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(SerializeManifest(*parsed), text);
  EXPECT_EQ(parsed->name, Example().name);
  EXPECT_EQ(parsed->created_unix_seconds, 1'700'000'000);
  const ArrayFile& features = parsed->node_types[0].features;
  EXPECT_EQ(features.dtype, DType::kBFloat16);
  EXPECT_TRUE(features.in_place);
  EXPECT_EQ(features.modified_ns, -5);
  EXPECT_EQ(features.file_id, UINT64_MAX);
  EXPECT_EQ(features.header_crc32c, 0xDEADBEEF);
  EXPECT_TRUE(parsed->node_types[1].features.path.empty());
  EXPECT_EQ(parsed->edge_types[0].source_type, "author");
  EXPECT_THAT(parsed->transforms, testing::ElementsAre("one", "two"));
}

TEST(ManifestTest, TheFileIsJson) {
  const json parsed = json::parse(SerializeManifest(Example()), nullptr, false);
  ASSERT_TRUE(parsed.is_object());
  EXPECT_EQ(parsed["format"], "hearth-dataset");
  EXPECT_EQ(parsed["version"]["major"], 1);
  EXPECT_EQ(parsed["crc32c"].get<std::string>().size(), 8u);
}

TEST(ManifestTest, AnyChangedByteIsDataLoss) {
  const std::string whole = SerializeManifest(Example());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string text = whole;
    text[i] ^= 1;
    const auto parsed = ParseManifest(text, "/d/manifest.json");
    ASSERT_TRUE(absl::IsDataLoss(parsed.status())) << i;
    ASSERT_THAT(std::string(parsed.status().message()),
                HasSubstr("/d/manifest.json"));
  }
}

TEST(ManifestTest, TruncatedAnywhereIsDataLoss) {
  const std::string whole = SerializeManifest(Example());
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(
        absl::IsDataLoss(ParseManifest(whole.substr(0, size), "m").status()));
  }
}

TEST(ManifestTest, ANewerMajorVersionIsRefusedAndAMinorOneRead) {
  json body = json::parse(SerializeManifest(Example()));
  body.erase("crc32c");
  body["version"]["minor"] = 99;
  body["unknown"] = {1, 2};
  EXPECT_TRUE(ParseManifest(Sealed(body), "m").ok());
  body["version"]["major"] = 2;
  body["node_types"] = "quite different";
  const absl::Status status = ParseManifest(Sealed(body), "m").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

TEST(ManifestTest, AnUnknownRequiredFeatureIsRefused) {
  json body = json::parse(SerializeManifest(Example()));
  body.erase("crc32c");
  body["required_features"] = {"compression"};
  const absl::Status status = ParseManifest(Sealed(body), "m").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("compression"));
}

TEST(ManifestTest, ReadsBackEveryKindOfLabels) {
  for (const LabelKind kind : {LabelKind::kMultiLabel, LabelKind::kTargets}) {
    const std::string text = SerializeManifest(WithLabels(kind));
    const auto parsed = ParseManifest(text, "m");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->node_types[0].label_kind, kind);
    EXPECT_EQ(parsed->node_types[0].label_width, 9);
    EXPECT_EQ(SerializeManifest(*parsed), text);
    // A program of version 1.0 must not take it for damaged.
    EXPECT_EQ(json::parse(text)["required_features"], json({"label_kinds"}));
  }
  const json classes = json::parse(SerializeManifest(Example()));
  EXPECT_EQ(classes["required_features"], json::array());
}

TEST(ManifestTest, PartialLabelsAreKnownByTheirRows) {
  Manifest manifest = WithLabels(LabelKind::kMultiLabel);
  EXPECT_FALSE(HasPartialLabels(manifest.node_types[0]));
  EXPECT_FALSE(HasPartialLabels(manifest.node_types[1]));
  manifest.node_types[0].labels = Array("l.npy", DType::kUint8, {2000, 4});
  EXPECT_TRUE(HasPartialLabels(manifest.node_types[0]));
  const std::string text = SerializeManifest(manifest);
  const auto parsed = ParseManifest(text, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(HasPartialLabels(parsed->node_types[0]));
  // A program of version 1.2 must not take it for damaged.
  EXPECT_EQ(json::parse(text)["required_features"],
            json({"label_kinds", "partial_labels"}));
}

TEST(ManifestTest, ReadsBackIds) {
  const std::string text = SerializeManifest(WithIds());
  const auto parsed = ParseManifest(text, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(SerializeManifest(*parsed), text);
  EXPECT_EQ(parsed->node_types[0].ids.path, "ids.npy");
  EXPECT_EQ(parsed->node_types[1].id_text.path, "text.npy");
  EXPECT_EQ(parsed->Arrays().size(), Example().Arrays().size() + 2);
  EXPECT_EQ(parsed->SizeBytes(),
            Example().SizeBytes() + 128 + 16'000 + 4 * 4 + 128 + 5 + 4);
  // A program of version 1.1 passes over them.
  EXPECT_EQ(json::parse(text)["required_features"], json::array());
}

// The example with rows 500 to 599 of 2000, of 32 bytes each.
Manifest Shard() {
  Manifest manifest = Example();
  ArrayFile& features = manifest.node_types[0].features;
  features = Array("f.npy", DType::kBFloat16, {2000, 16});
  features.rows = {.first = 500, .end = 600};
  return manifest;
}

TEST(ManifestTest, AShardTellsWhichRowsItHas) {
  const Manifest manifest = Shard();
  EXPECT_TRUE(manifest.is_sharded());
  EXPECT_FALSE(Example().is_sharded());
  const std::string text = SerializeManifest(manifest);
  EXPECT_THAT(text, HasSubstr("row_range"));
  EXPECT_THAT(SerializeManifest(Example()), Not(HasSubstr("row")));
  const auto parsed = ParseManifest(text, "manifest.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ArrayFile& features = parsed->node_types[0].features;
  EXPECT_EQ(features.rows, (RowRange{.first = 500, .end = 600}));
  EXPECT_EQ(SerializeManifest(*parsed), text);
  // Bytes 16,000 to 19,199 of the data, in blocks of 4,096.
  EXPECT_EQ(features.KeptBytes().begin, 12'288u);
  EXPECT_EQ(features.KeptBytes().end, 20'480u);
  EXPECT_EQ(features.StoredBytes(), 128u + 8'192u);
  Manifest whole = manifest;
  whole.node_types[0].features.rows.reset();
  // 15 + 1 blocks of 64,000 bytes have checksums in both; rows have some only
  // in the whole dataset.
  EXPECT_EQ(whole.SizeBytes() - manifest.SizeBytes(),
            64'000u - 8'192u + 2'000u * 4 + 16);
}

TEST(ManifestTest, AShardMayHaveNoRowsOrTheLast) {
  Manifest manifest = Shard();
  ArrayFile& features = manifest.node_types[0].features;
  features.rows = {.first = 500, .end = 500};
  EXPECT_EQ(features.StoredBytes(), 128u);
  features.rows = {.first = 1'900, .end = 2'000};
  EXPECT_EQ(features.KeptBytes().end, 64'000u);
  EXPECT_EQ(DescribeRows(*features.rows, 2'000), "rows 1900 .. 1999 of 2000");
}

TEST(ManifestTest, ReadsWhatVersion10Wrote) {
  json body = json::parse(SerializeManifest(Example()));
  body.erase("crc32c");
  body["version"]["minor"] = 0;
  EXPECT_FALSE(body["node_types"][0].contains("label_kind"));
  EXPECT_EQ(body["node_types"][0]["num_classes"], 3);
  const auto parsed = ParseManifest(Sealed(body), "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->node_types[0].label_kind, LabelKind::kClasses);
  EXPECT_EQ(parsed->node_types[0].label_width, 3);
}

TEST(ManifestTest, CountsTheBytesInItsFolder) {
  Manifest manifest = Example();
  manifest.node_types[0].features.in_place = false;
  // Each array with a checksum for every 4,096 bytes begun.
  uint64_t expected = 80 + 64'000 + 16 * 4;
  // Row checksums.
  expected += 2000 * 4 + 16;
  expected += 128 + 8000 + 2 * 4;
  expected += (128 + 24 + 4) + (128 + 8 + 4) + (128 + 16 + 4);
  expected += (128 + 2001 * 8 + 4 * 4) + (128 + 16 + 4);
  EXPECT_EQ(manifest.SizeBytes(), expected);
  manifest.node_types[0].features.in_place = true;
  EXPECT_EQ(manifest.SizeBytes(), expected - 80 - 64'000);
}

TEST(FingerprintTest, IsOfTheContentsAlone) {
  const Manifest manifest = Example();
  const std::string fingerprint = Fingerprint(manifest, {"a", "b"});
  EXPECT_EQ(fingerprint.size(), 16u);
  Manifest moved = manifest;
  moved.name = "other";
  moved.created_unix_seconds = 1;
  moved.node_types[0].features.path = "/elsewhere/f.npy";
  moved.node_types[0].features.modified_ns = 99;
  moved.transforms.clear();
  EXPECT_EQ(Fingerprint(moved, {"a", "b"}), fingerprint);
  EXPECT_NE(Fingerprint(manifest, {"a", "c"}), fingerprint);
  Manifest larger = manifest;
  larger.node_types[0].num_nodes = 5;
  EXPECT_NE(Fingerprint(larger, {"a", "b"}), fingerprint);
  Manifest more_labels = WithLabels(LabelKind::kMultiLabel);
  const std::string of_labels = Fingerprint(more_labels, {"a", "b"});
  EXPECT_NE(of_labels, fingerprint);
  more_labels.node_types[0].label_width = 8;
  EXPECT_NE(Fingerprint(more_labels, {"a", "b"}), of_labels);
  EXPECT_NE(Fingerprint(WithIds(), {"a", "b"}), fingerprint);
}

TEST(FingerprintTest, StaysWhatItWasInVersion11) {
  EXPECT_EQ(Fingerprint(Example(), {"a", "b"}), "378297adc9b8b807");
}

// ---- Contents that are wrong although the checksum is right

struct Wrong {
  std::function<void(json&)> spoil;
  std::string problem;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.problem; }

class WrongManifestTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongManifestTest, IsDataLossNamingTheField) {
  json body = json::parse(SerializeManifest(Example()));
  body.erase("crc32c");
  GetParam().spoil(body);
  const absl::Status status = ParseManifest(Sealed(body), "/d/m").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/d/m: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().problem));
}

Wrong Top(const char* key, json value, const char* problem) {
  return {[=](json& body) { body[key] = value; }, problem};
}

Wrong Node(const char* key, json value, const char* problem) {
  return {[=](json& body) { body["node_types"][0][key] = value; }, problem};
}

Wrong Features(const char* key, json value, const char* problem) {
  return {[=](json& body) { body["node_types"][0]["features"][key] = value; },
          problem};
}

Wrong Labels(const char* key, json value, const char* problem) {
  return {[=](json& body) { body["node_types"][0]["labels"][key] = value; },
          problem};
}

Wrong Edge(const char* key, json value, const char* problem) {
  return {[=](json& body) { body["edge_types"][0][key] = value; }, problem};
}

INSTANTIATE_TEST_SUITE_P(
    Top, WrongManifestTest,
    testing::Values(
        Top("format", "other", "manifest.format"),
        Top("version", 1, "manifest.version is not a JSON object"),
        Top("version", {{"major", 0}, {"minor", 0}}, "version.major"),
        Top("version", {{"major", 1}}, "version.minor is missing"),
        Top("required_features", 1, "required_features"),
        Top("name", 5, "manifest.name"),
        Top("fingerprint", "0123456789ABCDEF", "manifest.fingerprint"),
        Top("fingerprint", "0123", "manifest.fingerprint"),
        Top("created_unix_seconds", "now", "created_unix_seconds"),
        Top("node_types", json::array(), "node_types is empty"),
        Top("node_types", {1}, "node_types[0]"),
        Top("edge_types", json::object(), "edge_types is not an array"),
        Top("transforms", {1}, "manifest.transforms"),
        Wrong{[](json& body) { body.erase("name"); }, "name is missing"}));

INSTANTIATE_TEST_SUITE_P(
    Types, WrongManifestTest,
    testing::Values(
        Node("name", "", "without a name"), Node("name", "author", "one name"),
        Node("num_nodes", 0, "node_types[0].num_nodes"),
        Node("num_nodes", int64_t{1} << 49, "num_nodes"),
        Node("num_nodes", 1999, "is not a float array of num_nodes rows"),
        Node("num_classes", -1, "num_classes"),
        Node("num_classes", 0, "does not go with labels"),
        Wrong{[](json& body) { body["node_types"][0].erase("labels"); },
              "does not go with labels"},
        Node("train", 5, "train is not a JSON object"),
        Edge("source_type", "nobody", "source_type is not a node type"),
        Edge("destination_type", "nobody", "destination_type"),
        Edge("num_edges", 5, "indices is not an integer array of num_edges"),
        Edge("num_edges", -1, "num_edges"),
        Wrong{[](json& body) {
                std::swap(body["edge_types"][0]["indptr"],
                          body["edge_types"][0]["indices"]);
              },
              "indptr is not an int64 array"},
        Wrong{[](json& body) { body["edge_types"][0].erase("indptr"); },
              "indptr is not"},
        Wrong{[](json& body) { body["edge_types"][0].erase("indices"); },
              "indices is not"},
        Wrong{[](json& body) {
                body["node_types"][0]["train"] =
                    body["node_types"][0]["labels"];
              },
              "train is not an int64 array"}));

/// Labels of `kind` in place of classes, `key` of them spoiled.
Wrong KindOfLabels(LabelKind kind, const char* key, json value,
                   const char* problem) {
  return {[=](json& body) {
            json other = json::parse(SerializeManifest(WithLabels(kind)));
            body["node_types"][0] = other["node_types"][0];
            body["node_types"][0][key] = value;
          },
          problem};
}

Wrong LabelArray(LabelKind kind, const ArrayFile& array, const char* problem) {
  return {[=](json& body) {
            Manifest manifest = WithLabels(kind);
            manifest.node_types[0].labels = array;
            body = json::parse(SerializeManifest(manifest));
            body.erase("crc32c");
          },
          problem};
}

INSTANTIATE_TEST_SUITE_P(
    Labels, WrongManifestTest,
    testing::Values(
        KindOfLabels(LabelKind::kTargets, "label_kind", "ranks",
                     "label_kind \"ranks\" is not a kind of labels"),
        KindOfLabels(LabelKind::kTargets, "label_kind", 1, "label_kind"),
        KindOfLabels(LabelKind::kTargets, "label_kind", "classes",
                     "is not an array of int32 (2000,), as classes"),
        KindOfLabels(LabelKind::kTargets, "label_kind", "multi_label",
                     "is not an array of uint8 (2000, 2), as multi_label"),
        KindOfLabels(LabelKind::kMultiLabel, "label_kind", "targets",
                     "is not an array of float32 (2000, 9), as targets"),
        KindOfLabels(LabelKind::kMultiLabel, "label_width", 16,
                     "is not an array of uint8 (2000, 3)"),
        KindOfLabels(LabelKind::kMultiLabel, "label_width", 0,
                     "label_width does not go with labels"),
        KindOfLabels(LabelKind::kTargets, "label_width", int64_t{1} << 31,
                     "label_width"),
        LabelArray(LabelKind::kTargets, Array("l.npy", DType::kFloat32, {2000}),
                   "is not an array of float32 (2000, 9)"),
        LabelArray(LabelKind::kTargets,
                   Array("l.npy", DType::kFloat32, {1999, 9}),
                   "is not an array of float32 (2000, 9)"),
        LabelArray(LabelKind::kMultiLabel,
                   Array("l.npy", DType::kUint8, {4000}),
                   "is not an array of uint8 (2000, 2)"),
        LabelArray(LabelKind::kMultiLabel, ArrayFile(),
                   "label_width does not go with labels")));

/// `array` as the ids of the papers, or as their text.
Wrong IdArray(ArrayFile NodeTypeEntry::*member, const ArrayFile& array,
              const char* problem) {
  return {[=](json& body) {
            Manifest manifest = WithIds();
            manifest.node_types[0].ids = ArrayFile();
            manifest.node_types[0].*member = array;
            body = json::parse(SerializeManifest(manifest));
            body.erase("crc32c");
          },
          problem};
}

INSTANTIATE_TEST_SUITE_P(
    Ids, WrongManifestTest,
    testing::Values(
        IdArray(&NodeTypeEntry::ids, Array("i", DType::kInt64, {1999}),
                "ids is not an int64 array of num_nodes ids"),
        IdArray(&NodeTypeEntry::ids, Array("i", DType::kInt32, {2000}),
                "ids is not an int64 array"),
        IdArray(&NodeTypeEntry::ids, Array("i", DType::kInt64, {2000, 1}),
                "ids is not an int64 array"),
        IdArray(&NodeTypeEntry::id_text, Array("i", DType::kUint8, {3998}),
                "id_text is not a uint8 array of num_nodes ids"),
        IdArray(&NodeTypeEntry::id_text, Array("i", DType::kInt64, {3999}),
                "id_text is not a uint8 array"),
        IdArray(&NodeTypeEntry::id_text, Array("i", DType::kUint8, {2000, 2}),
                "id_text is not a uint8 array"),
        Wrong{[](json& body) {
                Manifest manifest = WithIds();
                manifest.node_types[0].id_text =
                    Array("i", DType::kUint8, {3999});
                body = json::parse(SerializeManifest(manifest));
                body.erase("crc32c");
              },
              "id_text does not go with ids"}));

INSTANTIATE_TEST_SUITE_P(
    Arrays, WrongManifestTest,
    testing::Values(
        Features("path", "relative/f.npy", "features.path"),
        Features("path", "/data/../etc/passwd", "features.path"),
        Features("path", "/", "features.path"),
        Features("path", "/a//b", "features.path"),
        Features("path", std::string("/a\0b", 4), "features.path"),
        Features("in_place", 1, "features.in_place"),
        Features("dtype", "float64", "features.dtype"),
        Features("dtype", "int64", "features"),
        Features("shape", {2000, 15}, "does not fit the file's size"),
        Features("shape", {-2000, -16}, "features.shape"),
        Features("shape", "2000", "features.shape"),
        Features("shape", {int64_t{1} << 40, int64_t{1} << 40},
                 "does not fit the file's size"),
        Features("data_offset", 81, "does not fit the file's size"),
        Features("data_offset", -1, "features.data_offset"),
        Features("data_offset", 1 << 30, "features.data_offset"),
        Features("file_size_bytes", UINT64_MAX, "features.file_size_bytes"),
        Features("modified_ns", UINT64_MAX, "features.modified_ns"),
        Features("header_crc32c", int64_t{1} << 32, "features.header_crc32c"),
        Features("file_id", -1, "features.file_id"),
        Features("crc_block_bytes", 0, "features.crc_block_bytes"),
        Features("crc_block_bytes", 5000, "features.crc_block_bytes"),
        Features("crc_block_bytes", 1 << 30, "features.crc_block_bytes"),
        Features("crc_path", "", "features.crc_path"),
        Features("crc_path", "../f.crc", "features.crc_path"),
        Features("crc_path", "/f.crc", "features.crc_path"),
        Features("crc_file_crc32c", 1.5, "features.crc_file_crc32c"),
        Labels("path", "/abs", "labels.path"),
        Labels("path", "a/../../b", "labels.path"),
        Labels("path", "./a", "labels.path"),
        Labels("path", "a/", "labels.path"), Labels("path", "", "labels.path"),
        Labels("dtype", "float32",
               "is not an array of int32 (2000,), as classes"),
        Wrong{[](json& body) {
                json& labels = body["node_types"][0]["labels"];
                labels["data_offset"] = 100;
                labels["file_size_bytes"] = 8100;
              },
              "labels.data_offset is not a multiple of 64"},
        Wrong{[](json& body) {
                json& labels = body["node_types"][0]["labels"];
                labels["in_place"] = true;
                labels["path"] = "/etc/passwd";
              },
              "is not an array of int32"}));

}  // namespace
}  // namespace hearth::store
