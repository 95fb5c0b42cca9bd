#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "engine/ingest/formats/formats.h"
#include "engine/io/file_system.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Malformed inputs: each is refused with an error that names the file and the
// problem, and leaves nothing behind.

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Malformed {
  /// Damages a good folder.
  std::function<void(store::NumpyFolder&)> spoil;
  /// Texts that the error must contain: the file,
  std::string file;
  /// and the problem.
  std::string problem;
  bool in_place = false;
};

void PrintTo(const Malformed& malformed, std::ostream* out) {
  *out << malformed.file << ": " << malformed.problem;
}

class MalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, IsRefusedNamingFileAndProblem) {
  store::NumpyFolder folder;
  GetParam().spoil(folder);
  ImportOptions options;
  options.source = folder.path();
  options.name = "test";
  options.destination = folder.Destination();
  options.in_place = GetParam().in_place;
  io::FileSystem& files = io::FileSystem::Posix();
  const absl::Status status =
      ImportDataset(files, {"numpy"}, options, nullptr, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsDataLoss(status))
      << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr(GetParam().file.empty()
                                     ? folder.path()
                                     : folder.Path(GetParam().file)));
  EXPECT_THAT(message, HasSubstr(GetParam().problem));
  EXPECT_TRUE(absl::IsNotFound(files.Stat(folder.Destination()).status()));
  EXPECT_TRUE(
      absl::IsNotFound(files.Stat(folder.Destination() + ".tmp").status()));
}

// ---- Kinds of damage

/// A folder with one file replaced.
Malformed Replaced(const std::string& file, const store::NpyText& by,
                   const std::string& problem) {
  return {[=](store::NumpyFolder& folder) { folder.Write(file, by); }, file,
          problem};
}

/// A folder whose edges are in CSC, with one file replaced.
Malformed ReplacedCsc(const std::string& file, const store::NpyText& by,
                      const std::string& problem) {
  return {[=](store::NumpyFolder& folder) {
            folder.UseCsc();
            folder.Write(file, by);
          },
          file, problem};
}

/// A file cut after `size` bytes.
Malformed Truncated(const std::string& file, size_t size,
                    const std::string& problem) {
  return {[=](store::NumpyFolder& folder) {
            folder.Write(file, folder.Read(file).substr(0, size));
          },
          file, problem};
}

/// A file without its last `count` bytes.
Malformed Shortened(const std::string& file, size_t count) {
  return {[=](store::NumpyFolder& folder) {
            const std::string bytes = folder.Read(file);
            folder.Write(file, bytes.substr(0, bytes.size() - count));
          },
          file, "is truncated"};
}

Malformed Missing(const std::string& file) {
  return {[=](store::NumpyFolder& folder) { folder.Remove(file); }, file,
          "is missing"};
}

Malformed Lengthened(const std::string& file) {
  return {[=](store::NumpyFolder& folder) {
            folder.Write(file, folder.Read(file) + "x");
          },
          file, "has 1 bytes beyond its elements"};
}

/// A features file whose header holds `dictionary`.
Malformed Header(const std::string& dictionary, const std::string& problem) {
  return {[=](store::NumpyFolder& folder) {
            folder.Write("node_feat.npy",
                         store::NpyHeaderText(dictionary, 1) +
                             store::Raw(store::NumpyFolder::Features()));
          },
          "node_feat.npy", problem};
}

/// A features file of exactly these bytes.
Malformed Bytes(const std::string& bytes, const std::string& problem) {
  return {
      [=](store::NumpyFolder& folder) { folder.Write("node_feat.npy", bytes); },
      "node_feat.npy", problem};
}

std::string Features(size_t position, float value) {
  std::vector<float> values = store::NumpyFolder::Features();
  values[position] = value;
  return store::Raw(values);
}

store::NpyText Ints(const std::vector<int64_t>& values) {
  return {.descr = "<i8",
          .shape = "(" + std::to_string(values.size()) + ",)",
          .data = store::Raw(values)};
}

store::NpyText Labels(const std::vector<double>& values) {
  return {.descr = "<f8", .shape = "(6,)", .data = store::Raw(values)};
}

/// edge_index.npy with one end replaced.
store::NpyText Edges(size_t position, int64_t node) {
  std::vector<int64_t> ends = store::NumpyFolder::Sources();
  ends.insert(ends.end(), store::NumpyFolder::Destinations().begin(),
              store::NumpyFolder::Destinations().end());
  ends[position] = node;
  return {.descr = "<i8", .shape = "(2, 7)", .data = store::Raw(ends)};
}

INSTANTIATE_TEST_SUITE_P(
    MissingFiles, MalformedTest,
    testing::Values(Missing("edge_index.npy"), Missing("node_feat.npy"),
                    Missing("node_label.npy"), Missing("train_idx.npy"),
                    Malformed{[](store::NumpyFolder& folder) {
                                folder.UseCsc();
                                folder.Remove("indptr.npy");
                              },
                              "indptr.npy", "is missing"},
                    Malformed{[](store::NumpyFolder& folder) {
                                folder.UseCsc();
                                folder.Remove("indices.npy");
                              },
                              "indices.npy", "is missing"},
                    Malformed{[](store::NumpyFolder& folder) {
                                const std::string edges =
                                    folder.Read("edge_index.npy");
                                folder.UseCsc();
                                folder.Write("edge_index.npy", edges);
                              },
                              "", "has edge_index.npy and indptr.npy"},
                    Malformed{
                        [](store::NumpyFolder& folder) { folder.Remove(""); },
                        "", "there is no such folder"}));

INSTANTIATE_TEST_SUITE_P(
    NotRegularFiles, MalformedTest,
    testing::Values(Malformed{[](store::NumpyFolder& folder) {
                                folder.Remove("train_idx.npy");
                                ::mkdir(folder.Path("train_idx.npy").c_str(),
                                        0755);
                              },
                              "train_idx.npy", "is not a regular file"},
                    Malformed{[](store::NumpyFolder& folder) {
                                folder.Remove("node_feat.npy");
                                ::mkfifo(folder.Path("node_feat.npy").c_str(),
                                         0644);
                              },
                              "node_feat.npy", "is not a regular file"}));

INSTANTIATE_TEST_SUITE_P(
    TruncatedHeaders, MalformedTest,
    testing::Values(
        Truncated("node_feat.npy", 0, "is truncated"),
        Truncated("node_feat.npy", 1, "is truncated"),
        Truncated("node_feat.npy", 5, "is truncated"),
        Truncated("node_feat.npy", 6, "is truncated"),
        Truncated("node_feat.npy", 7, "is truncated"),
        Truncated("node_feat.npy", 9, "is truncated"),
        Truncated("node_feat.npy", 10, "is truncated within its header"),
        Truncated("node_feat.npy", 64,
                  "is truncated within its header, at byte 64"),
        Truncated("node_feat.npy", 127, "is truncated within its header"),
        Truncated("edge_index.npy", 100, "is truncated within its header"),
        Truncated("node_label.npy", 11, "is truncated within its header"),
        Truncated("train_idx.npy", 3, "is truncated")));

INSTANTIATE_TEST_SUITE_P(
    TruncatedData, MalformedTest,
    testing::Values(
        Truncated("node_feat.npy", 128,
                  "takes 72 bytes after the header, 0 are there"),
        Shortened("node_feat.npy", 1), Shortened("node_feat.npy", 71),
        Shortened("edge_index.npy", 1), Shortened("edge_index.npy", 56),
        Shortened("node_label.npy", 8), Shortened("train_idx.npy", 1),
        Shortened("valid_idx.npy", 8), Shortened("test_idx.npy", 7),
        ReplacedCsc("indptr.npy",
                    {.descr = "<i8", .shape = "(7,)", .data = "0"},
                    "is truncated"),
        ReplacedCsc("indices.npy",
                    {.descr = "<i8", .shape = "(7,)", .data = ""},
                    "is truncated")));

INSTANTIATE_TEST_SUITE_P(
    TrailingBytes, MalformedTest,
    testing::Values(Lengthened("node_feat.npy"), Lengthened("edge_index.npy"),
                    Lengthened("node_label.npy"), Lengthened("train_idx.npy"),
                    Lengthened("valid_idx.npy"), Lengthened("test_idx.npy")));

INSTANTIATE_TEST_SUITE_P(
    NotNpy, MalformedTest,
    testing::Values(
        Bytes("PK\x03\x04 an archive", "is not an .npy file"),
        Bytes(std::string(200, '\0'), "begins with other bytes"),
        Bytes("\x93NUMPX\x01", "is not an .npy file"),
        Bytes(store::NpyHeaderText("", 0), "has .npy version 0.0"),
        Bytes(store::NpyHeaderText("", 4), "has .npy version 4.0"),
        Bytes("\x93NUMPY\x01\x01" + std::string(80, ' '),
              "has .npy version 1.1"),
        Bytes("\x93NUMPY\x02" + std::string("\0\xff\xff\xff\xff", 5) + "{}",
              "has a header of 4294967295 bytes"),
        Bytes("\x93NUMPY\x03" + std::string("\0\x01\x00\x10\x00", 5) + "{}",
              "has a header of 1048577 bytes"),
        Bytes("\x93NUMPY\x01" + std::string("\0\xff\xff", 3) + "{}",
              "is truncated within its header")));

INSTANTIATE_TEST_SUITE_P(
    MalformedHeaders, MalformedTest,
    testing::Values(
        Header("", "where '{' should be"),
        Header("['descr', '<f4']", "where '{' should be"),
        Header("{'descr': '<f4', 'fortran_order': False}", "lacks 'shape'"),
        Header("{'descr': '<f4', 'shape': (6, 3)}", "lacks 'fortran_order'"),
        Header("{'fortran_order': False, 'shape': (6, 3)}", "lacks 'descr'"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3), "
               "'extra': 1}",
               "unknown 'extra'"),
        Header("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, "
               "'shape': (6, 3)}",
               "'descr' twice"),
        Header("{'descr': '<f4', 'fortran_order': 0, 'shape': (6, 3)}",
               "True or False"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': [6, 3]}",
               "where '(' should be"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (18)}",
               "',' before ')'"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, -3)}",
               "a number of elements"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3.0)}",
               "should be"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3)",
               "',' or '}'"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3)} + x",
               "nothing more"),
        Header("{'descr': '<f4, 'fortran_order': False, 'shape': (6, 3)}",
               "should be"),
        Header("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (6, 3)}",
               "a string without escapes"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(99999999999999999999,)}",
               "a dimension of 99999999999999999999"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(4611686018427387904, 4)}",
               "is impossibly large"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(2147483648, 2147483648)}",
               "is impossibly large"),
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
               "1,1,18)}",
               "more than 32 dimensions")));

INSTANTIATE_TEST_SUITE_P(
    ElementTypes, MalformedTest,
    testing::Values(
        Header("{'descr': '|O', 'fortran_order': False, 'shape': (6, 3)}",
               "is an object array"),
        Header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': "
               "(6, 3)}",
               "a structured element type"),
        Header("{'descr': '>f4', 'fortran_order': False, 'shape': (6, 3)}",
               "is big-endian"),
        Header("{'descr': '<c8', 'fortran_order': False, 'shape': (3, 3)}",
               "elements of type \"<c8\""),
        Header("{'descr': '<f16', 'fortran_order': False, 'shape': (1, 4)}",
               "elements of type \"<f16\""),
        Header("{'descr': '<U4', 'fortran_order': False, 'shape': (6, 3)}",
               "elements of type \"<U4\""),
        Header("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (3, 3)}",
               "elements of type"),
        Header("{'descr': 'float32', 'fortran_order': False, 'shape': (6, 3)}",
               "elements of type"),
        Replaced("node_feat.npy",
                 {.descr = "<i4",
                  .shape = "(6, 1)",
                  .data = store::Raw<int32_t>({0, 1, 1 << 24, -(1 << 24),
                                               (1 << 24) + 1, 0})},
                 "[4, 0] is 16777217, more than a float32 can hold exactly"),
        Header("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 6)}",
               "has uint16 elements"),
        Replaced("edge_index.npy",
                 {.descr = ">i8", .shape = "(2, 0)", .data = ""},
                 "is big-endian"),
        Replaced("edge_index.npy",
                 {.descr = "<f8", .shape = "(2, 0)", .data = ""},
                 "has float64 elements"),
        Replaced("edge_index.npy",
                 {.descr = "|b1", .shape = "(2, 1)", .data = "\1\1"},
                 "has bool elements"),
        Replaced("train_idx.npy",
                 {.descr = "|b1", .shape = "(6,)", .data = "\1\1\1\1\1\1"},
                 "this is a mask, not a list of nodes; as a mask it is called "
                 "train_mask.npy"),
        Replaced("test_idx.npy",
                 {.descr = "|u1",
                  .shape = "(6,)",
                  .data = std::string("\0\1\0\1\0\0", 6)},
                 "this is a mask, not a list of nodes"),
        // A node occurs twice, as in a mask, but another one is there, too.
        Replaced("test_idx.npy",
                 {.descr = "|u1",
                  .shape = "(6,)",
                  .data = std::string("\1\3\1\1\1\1", 6)},
                 "[2] is node 1, which is in the list already"),
        Replaced(
            "valid_idx.npy",
            {.descr = "<f4", .shape = "(1,)", .data = store::Raw<float>({2})},
            "has float32 elements"),
        ReplacedCsc(
            "indptr.npy",
            {.descr = "<f4", .shape = "(1,)", .data = store::Raw<float>({2})},
            "has float32 elements"),
        ReplacedCsc("indices.npy",
                    {.descr = "|b1", .shape = "(1,)", .data = "\1"},
                    "has bool elements")));

INSTANTIATE_TEST_SUITE_P(
    Shapes, MalformedTest,
    testing::Values(
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write(
                        "node_feat.npy",
                        {.shape = "(18,)", .data = std::string(72, '\0')});
                  },
                  "node_label.npy",
                  "has 6 rows, node_feat.npy has 18 rows; both need one"},
        Header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3, 1)}",
               "has shape (6, 3, 1)"),
        Replaced("node_feat.npy",
                 {.shape = "()", .data = store::Raw<float>({1})},
                 "has shape ()"),
        Replaced("node_feat.npy", {.shape = "(0, 3)"}, "is empty"),
        Replaced("node_feat.npy", {.shape = "(6, 0)"}, "is empty"),
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write(
                        "node_feat.npy",
                        {.shape = "(5, 3)", .data = std::string(60, '\0')});
                  },
                  "node_feat.npy",
                  "has 5 rows, all else 6 nodes: node_label.npy has 6 rows, "
                  "edge_index.npy has node 5"},
        ReplacedCsc("node_feat.npy",
                    {.shape = "(4, 3)", .data = std::string(48, '\0')},
                    "has 4 rows, all else 6 nodes: node_label.npy has 6 rows, "
                    "indptr.npy has node 5, indices.npy has node 5, "
                    "train_idx.npy has node 4"),
        Replaced("node_label.npy", Ints({0, 1, 2, 0, 1}),
                 "has 5 rows, all else 6 nodes: node_feat.npy has 6 rows"),
        Replaced("node_label.npy",
                 {.descr = "|i1", .shape = "(6, 2)", .data = "000000000000"},
                 "[0, 0] is 48; of several labels each is 0 or 1"),
        Replaced("node_label.npy", {.descr = "|i1", .shape = "(6, 0)"},
                 "has shape (6, 0)"),
        Replaced("node_label.npy", {.descr = "|i1", .shape = "()", .data = "0"},
                 "has shape ()"),
        Replaced(
            "edge_index.npy",
            {.descr = "<i8", .shape = "(14,)", .data = std::string(112, 0)},
            "has shape (14,)"),
        Replaced(
            "edge_index.npy",
            {.descr = "<i8", .shape = "(3, 3)", .data = std::string(72, 0)},
            "has shape (3, 3)"),
        Replaced(
            "edge_index.npy",
            {.descr = "|i1", .shape = "(2, 7, 1)", .data = std::string(14, 0)},
            "has shape (2, 7, 1)"),
        Replaced(
            "train_idx.npy",
            {.descr = "|i1", .shape = "(2, 1)", .data = std::string("\0\4", 2)},
            "has shape (2, 1)"),
        Replaced("test_idx.npy",
                 {.descr = "|i1", .shape = "()", .data = std::string(1, '\3')},
                 "has shape ()"),
        Replaced("train_idx.npy", Ints({0, 1, 2, 3, 4, 5, 0}),
                 "lists 7 nodes of 6"),
        ReplacedCsc("indptr.npy", Ints({0, 1, 1, 5, 5, 7}),
                    "has 6 elements; with 6 nodes"),
        ReplacedCsc(
            "indptr.npy",
            {.descr = "|i1", .shape = "(7, 1)", .data = std::string(7, 0)},
            "has shape (7, 1)"),
        ReplacedCsc(
            "indices.npy",
            {.descr = "|i1", .shape = "(7, 1)", .data = std::string(7, 0)},
            "has shape (7, 1)")));

INSTANTIATE_TEST_SUITE_P(
    Edges, MalformedTest,
    testing::Values(
        Replaced("edge_index.npy", Edges(0, 6),
                 "[0, 0] is 6; node ids are 0 .. 5"),
        Replaced("edge_index.npy", Edges(6, -1), "[0, 6] is -1"),
        Replaced("edge_index.npy", Edges(7, 99), "[1, 0] is 99"),
        Replaced("edge_index.npy", Edges(13, INT64_MIN),
                 "[1, 6] is -9223372036854775808"),
        Replaced("edge_index.npy",
                 {.descr = "<u8",
                  .shape = "(2, 1)",
                  .data = store::Raw<uint64_t>({0, UINT64_MAX})},
                 "[1, 0] is 18446744073709551615, beyond"),
        Replaced("edge_index.npy",
                 {.descr = "<i4",
                  .shape = "(3, 2)",
                  .data = store::Raw<int32_t>({0, 1, 2, 3, 4, 6})},
                 "[2, 1] is 6"),
        Replaced("edge_index.npy",
                 {.descr = "<i4",
                  .shape = "(3, 2)",
                  .data = store::Raw<int32_t>({0, 6, 2, 3, 4, 1}),
                  .fortran_order = true},
                 "[1, 0] is 6"),
        Replaced("edge_index.npy",
                 {.descr = "<i4",
                  .shape = "(2, 3)",
                  .data = store::Raw<int32_t>({0, 1, 2, 3, -7, 1}),
                  .fortran_order = true},
                 "[0, 2] is -7"),
        ReplacedCsc("indptr.npy", Ints({1, 1, 1, 5, 5, 6, 7}),
                    "[0] is 1, not 0"),
        ReplacedCsc("indptr.npy", Ints({0, 1, 5, 1, 5, 6, 7}),
                    "[3] is 1, less than 5 before it"),
        ReplacedCsc("indptr.npy", Ints({0, 1, 1, 5, 5, 6, 6}),
                    "[6] is 6, but "),
        ReplacedCsc("indptr.npy", Ints({0, 1, 1, 5, 5, 6, 8}), "[6] is 8, but"),
        ReplacedCsc("indptr.npy", Ints({-1, 0, 1, 5, 5, 6, 7}),
                    "[0] is -1, not 0"),
        ReplacedCsc("indptr.npy",
                    {.descr = "<u8",
                     .shape = "(7,)",
                     .data = store::Raw<uint64_t>({0, 1, 1, 5, 5, 6,
                                                   UINT64_MAX})},
                    "[6] is 18446744073709551615, beyond"),
        ReplacedCsc("indices.npy", Ints({1, 0, 3, 6, 4, 0, 2}), "[3] is 6"),
        ReplacedCsc("indices.npy", Ints({1, 0, 3, 5, 4, 0, -2}), "[6] is -2")));

INSTANTIATE_TEST_SUITE_P(
    FeatureValues, MalformedTest,
    testing::Values(
        Replaced("node_feat.npy",
                 {.shape = "(6, 3)", .data = Features(0, kNan)},
                 "[0, 0] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.shape = "(6, 3)", .data = Features(17, kInfinity)},
                 "[5, 2] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.shape = "(6, 3)", .data = Features(7, -kInfinity)},
                 "[2, 1] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.shape = "(6, 3)",
                  .data = Features(7, kNan),
                  .fortran_order = true},
                 "[1, 1] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.descr = "<f2",
                  .shape = "(6, 1)",
                  .data = store::Raw<uint16_t>({0, 0, 0x3C00, 0x7E00, 0, 0})},
                 "[3, 0] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.descr = "<f2",
                  .shape = "(6, 1)",
                  .data = store::Raw<uint16_t>({0, 0, 0x3C00, 0, 0xFC00, 0})},
                 "[4, 0] is NaN or infinite"),
        Replaced("node_feat.npy",
                 {.descr = "<f8",
                  .shape = "(6, 1)",
                  .data = store::Raw<double>({0, 1e39, 0, 0, 0, 0})},
                 "[1, 0] is 1e+39, more than a float32 can hold"),
        Replaced("node_feat.npy",
                 {.descr = "<f8",
                  .shape = "(6, 1)",
                  .data = store::Raw<double>({0, 0, 0, kNan, 0, 0})},
                 "[3, 0] is NaN or infinite")));

INSTANTIATE_TEST_SUITE_P(
    LabelValues, MalformedTest,
    testing::Values(
        Replaced("node_label.npy", Ints({0, 1, -2, 0, 1, -1}), "[2] is -2"),
        Replaced("node_label.npy", Ints({0, 1, 2, 0, 1, INT64_MAX}),
                 "[5] is 9223372036854775807"),
        Replaced("node_label.npy", Ints({0, 10'000'000, 2, 0, 1, -1}),
                 "[1] is 10000000; labels are 0 .. 9999999"),
        Replaced("node_label.npy", Labels({0, 1, 2.5, 0, 1, -1}),
                 "[2] is 2.5, not a whole number"),
        Replaced("node_label.npy", Labels({0, 1, -0.5, 0, 1, -1}),
                 "[2] is -0.5, not a whole number"),
        Replaced("node_label.npy", Labels({0, 1, 2, 0, 1, -3}), "[5] is -3"),
        Replaced("node_label.npy", Labels({0, 1, 2, 0, 1, 1e30}),
                 "[5] is 1e+30"),
        Replaced("node_label.npy", Labels({0, kInfinity, 2, 0, 1, 1}),
                 "[1] is inf"),
        Replaced("node_label.npy", Ints({-1, -1, -1, -1, -1, -1}),
                 "labels no node at all"),
        Replaced("node_label.npy",
                 {.descr = "|i1",
                  .shape = "(6, 1)",
                  .data = store::Raw<int8_t>({0, 1, 2, -9, 1, 1})},
                 "[3, 0] is -9")));

INSTANTIATE_TEST_SUITE_P(
    Splits, MalformedTest,
    testing::Values(Replaced("train_idx.npy", Ints({}), "is empty"),
                    Replaced("train_idx.npy", Ints({4, 6}),
                             "[1] is 6; node ids are 0 .. 5"),
                    Replaced("train_idx.npy", Ints({-1, 0}), "[0] is -1"),
                    Replaced("test_idx.npy", Ints({1, INT64_MIN}),
                             "[1] is -9223372036854775808"),
                    Replaced("train_idx.npy", Ints({4, 0, 4}),
                             "[2] is node 4, which is in the list already"),
                    Replaced("valid_idx.npy", Ints({2, 0}),
                             "[1] is node 0, which is in train_idx.npy, too"),
                    Replaced("test_idx.npy", Ints({1, 2}),
                             "[1] is node 2, which is in valid_idx.npy, too")));

/// A mask of test nodes in place of their list.
Malformed Mask(const store::NpyText& mask, const std::string& problem) {
  return {[=](store::NumpyFolder& folder) {
            folder.Remove("test_idx.npy");
            folder.Write("test_mask.npy", mask);
          },
          "test_mask.npy", problem};
}

INSTANTIATE_TEST_SUITE_P(
    Masks, MalformedTest,
    testing::Values(
        Mask({.descr = "|b1", .shape = "(5,)", .data = "\1\1\1\1\1"},
             "has shape (5,); with 6 nodes a mask must be (6,)"),
        Mask({.descr = "|b1", .shape = "(6, 2)", .data = std::string(12, '\0')},
             "each column is a split of its own"),
        Mask({.shape = "(6,)", .data = std::string(24, '\0')},
             "has float32 elements; a mask has bools or integers"),
        Mask({.descr = "|i1", .shape = "(6,)", .data = {0, 1, 0, 2, 0, 0}},
             "[3] is 2; a mask is 0 or 1"),
        Mask({.descr = "|i1", .shape = "(6,)", .data = {0, 1, 1, 0, 0, 0}},
             "[2] is node 2, which is in valid_idx.npy, too"),
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write("val_idx.npy", folder.Read("valid_idx.npy"));
                  },
                  "", "has valid_idx.npy and val_idx.npy; which of them is"}));

INSTANTIATE_TEST_SUITE_P(
    Links, MalformedTest,
    testing::Values(Malformed{[](store::NumpyFolder& folder) {
                                folder.Remove("node_feat.npy");
                                std::filesystem::create_symlink(
                                    "nowhere", folder.Path("node_feat.npy"));
                              },
                              "node_feat.npy", "is a link to nothing"},
                    // A part of the split that may be absent.
                    Malformed{[](store::NumpyFolder& folder) {
                                folder.Remove("test_idx.npy");
                                std::filesystem::create_symlink(
                                    "nowhere", folder.Path("test_idx.npy"));
                              },
                              "test_idx.npy", "is a link to nothing"}));

INSTANTIATE_TEST_SUITE_P(
    InPlace, MalformedTest,
    testing::Values(
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write("node_feat.npy",
                                 {.descr = "|i1",
                                  .shape = "(6, 3)",
                                  .data = std::string(18, '\0')});
                  },
                  "node_feat.npy",
                  "has int8 elements; only float32, float16 and bfloat16 can "
                  "be used in place",
                  true},
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write(
                        "node_feat.npy",
                        {.shape = "(6, 3)",
                         .data = store::Raw(store::NumpyFolder::Features()),
                         .fortran_order = true});
                  },
                  "node_feat.npy", "is in Fortran order", true},
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write("node_feat.npy",
                                 {.descr = "<f8",
                                  .shape = "(6, 1)",
                                  .data = std::string(48, '\0')});
                  },
                  "node_feat.npy", "has float64 elements", true},
        Malformed{[](store::NumpyFolder& folder) {
                    folder.Write("node_feat.npy", {.shape = "(6, 3)",
                                                   .data = Features(4, kNan)});
                  },
                  "node_feat.npy", "[1, 1] is NaN or infinite", true}));

}  // namespace
}  // namespace hearth::ingest
