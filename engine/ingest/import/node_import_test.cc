#include "engine/ingest/import/node_import.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/npy.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class LabelImportTest : public ::testing::Test {
 protected:
  absl::StatusOr<ImportedLabels> Import(
      const store::NpyText& array, int64_t num_nodes,
      std::optional<store::LabelKind> wanted = std::nullopt,
      uint64_t memory_limit_bytes = 1 << 20) {
    folder_.Write("l.npy", array);
    const auto reader = ArrayReader::OpenNpy(files_, folder_.Path("l.npy"));
    if (!reader.ok()) return reader.status();
    const absl::Status status = CheckLabelHeader(**reader, num_nodes, wanted);
    if (!status.ok()) return status;
    const ImportProgress progress;
    ImportContext context(files_, memory_limit_bytes, "/nowhere", progress, {});
    auto imported = ImportLabels(context, **reader, wanted,
                                 {folder_.path(), "test", "node"});
    if (imported.ok()) {
      const uint64_t bytes = imported->array.file.file_size_bytes -
                             imported->array.file.data_offset;
      const auto most = ImportedLabelBytes((*reader)->header(), wanted);
      // An upper bound: floats may turn out to have no unknown labels.
      const auto row_bytes = static_cast<uint64_t>((imported->width + 7) / 8);
      const bool may_be_partial =
          imported->kind == store::LabelKind::kMultiLabel &&
          (*reader)->header().type.IsFloat() && imported->num_unknown == 0;
      EXPECT_EQ(
          most,
          bytes + (may_be_partial ? row_bytes * static_cast<uint64_t>(num_nodes)
                                  : 0));
    }
    return imported;
  }

  /// The written array.
  template <typename T>
  std::vector<T> Stored(const ImportedLabels& labels) {
    const store::ArrayFile& file = labels.array.file;
    const std::string bytes = folder_.Read(file.path);
    std::vector<T> values((bytes.size() - file.data_offset) / sizeof(T));
    std::memcpy(values.data(), bytes.data() + file.data_offset,
                values.size() * sizeof(T));
    return values;
  }

  void ExpectRefused(const absl::StatusOr<ImportedLabels>& labels,
                     const std::string& problem) {
    EXPECT_TRUE(absl::IsInvalidArgument(labels.status())) << labels.status();
    EXPECT_THAT(std::string(labels.status().message()),
                HasSubstr("l.npy: " + problem));
  }

  store::NumpyFolder folder_;
  io::FileSystem& files_ = io::FileSystem::Posix();
};

store::NpyText Doubles(const std::string& shape,
                       const std::vector<double>& values) {
  return {.descr = "<f8", .shape = shape, .data = store::Raw(values)};
}

TEST_F(LabelImportTest, OneColumnHasClasses) {
  for (const char* shape : {"(4,)", "(4, 1)"}) {
    const auto labels = Import(Doubles(shape, {2, kNaN, 0, -1}), 4);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_EQ(labels->kind, store::LabelKind::kClasses);
    EXPECT_EQ(labels->width, 3);
    EXPECT_THAT(labels->array.file.shape, ElementsAre(4));
    EXPECT_THAT(Stored<int32_t>(*labels), ElementsAre(2, -1, 0, -1));
  }
}

TEST_F(LabelImportTest, SeveralColumnsAreMultiLabel) {
  const auto labels = Import(Doubles("(3, 2)", {1, 0, kNaN, kNaN, 0, 0}), 3);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->kind, store::LabelKind::kMultiLabel);
  EXPECT_EQ(labels->width, 2);
  EXPECT_THAT(labels->array.file.shape, ElementsAre(3, 1));
  EXPECT_THAT(Stored<uint8_t>(*labels), ElementsAre(0b101, 0, 0b100));
}

TEST_F(LabelImportTest, MultiLabelTakesBoolsAndIntegers) {
  const std::string data("\1\0\1\1", 4);
  for (const char* descr : {"|b1", "|u1", "|i1"}) {
    const auto labels =
        Import({.descr = descr, .shape = "(2, 2)", .data = data}, 2);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_THAT(Stored<uint8_t>(*labels), ElementsAre(0b101, 0b111));
  }
}

TEST_F(LabelImportTest, EightLabelsTakeTwoBytesARow) {
  const auto labels =
      Import({.descr = "|u1",
              .shape = "(2, 8)",
              .data = std::string(8, '\1') + std::string(8, '\0')},
             2);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(Stored<uint8_t>(*labels), ElementsAre(0xFF, 1, 0, 1));
}

TEST_F(LabelImportTest, FortranOrderIsTransposed) {
  store::NpyText array = Doubles("(3, 2)", {1, 2, 3, 4, 5, 6});
  array.fortran_order = true;
  const auto labels = Import(array, 3, store::LabelKind::kTargets);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(Stored<float>(*labels), ElementsAre(1, 4, 2, 5, 3, 6));
  array = Doubles("(2, 2)", {0, 1, 1, 2});
  array.fortran_order = true;
  ExpectRefused(Import(array, 2), "[1, 1] is 2; of several labels");
}

TEST_F(LabelImportTest, TargetsAreAskedFor) {
  const auto labels = Import(Doubles("(3,)", {0.5, kNaN, -1e30}), 3,
                             store::LabelKind::kTargets);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->kind, store::LabelKind::kTargets);
  EXPECT_EQ(labels->width, 1);
  EXPECT_THAT(labels->array.file.shape, ElementsAre(3, 1));
  const auto stored = Stored<float>(*labels);
  EXPECT_EQ(stored[0], 0.5f);
  EXPECT_TRUE(std::isnan(stored[1]));
  EXPECT_EQ(stored[2], -1e30f);
  ExpectRefused(Import(Doubles("(2,)", {0, 0.5}), 2),
                "[1] is 0.5, not a whole number; --labels targets");
  ExpectRefused(Import(Doubles("(1, 2)", {0, 0.5}), 1),
                "[0, 1] is 0.5; of several labels each is 0 or 1 (--labels");
}

TEST_F(LabelImportTest, IntegersCanBeTargets) {
  const auto labels = Import({.descr = "<i4",
                              .shape = "(2, 2)",
                              .data = store::Raw<int32_t>({1, -2, 3, 1 << 24})},
                             2, store::LabelKind::kTargets);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(Stored<float>(*labels), ElementsAre(1, -2, 3, 1 << 24));
}

TEST_F(LabelImportTest, OneColumnCanBeMultiLabel) {
  const auto labels =
      Import(Doubles("(2,)", {1, 0}), 2, store::LabelKind::kMultiLabel);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(Stored<uint8_t>(*labels), ElementsAre(0b11, 0b10));
}

TEST_F(LabelImportTest, RowsThatAreNaNInPartHaveUnknownLabels) {
  const auto labels =
      Import(Doubles("(3, 3)", {0, 1, 0, 1, kNaN, 0, kNaN, kNaN, kNaN}), 3);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->width, 3);
  EXPECT_EQ(labels->num_unknown, 1);
  EXPECT_THAT(labels->array.file.shape, ElementsAre(3, 2));
  EXPECT_THAT(Stored<uint8_t>(*labels),
              ElementsAre(0b1010, 0b111, 0b1001, 0b101, 0, 0));
}

TEST_F(LabelImportTest, TargetsThatAreNaNInPartAreNamed) {
  ExpectRefused(
      Import(Doubles("(1, 2)", {kNaN, 3}), 1, store::LabelKind::kTargets),
      "[0, 0] is nan; only a whole row of NaN");
}

TEST_F(LabelImportTest, TargetsMustFitFloat32) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ExpectRefused(
      Import(Doubles("(2,)", {0, 1e39}), 2, store::LabelKind::kTargets),
      "[1] is 1e+39, more than a float32 can hold");
  ExpectRefused(
      Import(Doubles("(2,)", {-kInfinity, 0}), 2, store::LabelKind::kTargets),
      "[0] is -inf");
}

TEST_F(LabelImportTest, SomeNodeIsLabeled) {
  for (const auto kind :
       {store::LabelKind::kClasses, store::LabelKind::kMultiLabel,
        store::LabelKind::kTargets}) {
    ExpectRefused(Import(Doubles("(2,)", {kNaN, kNaN}), 2, kind),
                  "labels no node at all");
  }
}

TEST_F(LabelImportTest, ShapesFollowTheKind) {
  const std::string none;
  ExpectRefused(
      Import(Doubles("(2, 2)", {0, 1, 1, 0}), 2, store::LabelKind::kClasses),
      "has shape (2, 2); with 2 nodes it must be (2,), as of classes");
  ExpectRefused(Import(Doubles("(2, 1, 1)", {0, 1}), 2), "has shape (2, 1, 1)");
  ExpectRefused(Import(Doubles("(3,)", {0, 1, 1}), 2), "has shape (3,)");
  ExpectRefused(Import(Doubles("(2, 0)", {}), 2), "has shape (2, 0)");
  ExpectRefused(Import(Doubles("()", {0}), 1), "has shape ()");
}

// More rows than one block has, in either order.
TEST_F(LabelImportTest, BlocksAreReadOneAfterTheOther) {
  constexpr int64_t kRows = 100'000;
  std::vector<float> values(kRows * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const bool fortran : {false, true}) {
    std::vector<float> stored = values;
    for (size_t i = 0; fortran && i < values.size(); ++i) {
      stored[i % 2 * kRows + i / 2] = values[i];
    }
    const auto labels = Import({.descr = "<f4",
                                .shape = "(100000, 2)",
                                .data = store::Raw(stored),
                                .fortran_order = fortran},
                               kRows, store::LabelKind::kTargets);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_EQ(Stored<float>(*labels), values);
  }
}

TEST_F(LabelImportTest, ARowBeyondTheMemoryLimitIsRefused) {
  const auto labels = Import(
      {.descr = "|u1", .shape = "(1, 20000)", .data = std::string(20000, '\1')},
      1, std::nullopt, 1 << 20);
  EXPECT_EQ(labels.status().code(), absl::StatusCode::kResourceExhausted)
      << labels.status();
}

class IdImportTest : public testing::Test {
 protected:
  /// `text` as an array of shape `shape`.
  std::unique_ptr<ArrayReader> Array(const std::string& text,
                                     std::vector<int64_t> shape,
                                     store::ElementType type) {
    const auto array = *ScratchArray::Create(context_, type, "edges.txt");
    EXPECT_TRUE(
        array->AppendValues(absl::MakeConstSpan(text.data(), text.size()))
            .ok());
    return *array->Finish(std::move(shape));
  }

  absl::StatusOr<store::FinishedArray> Copy(const std::string& text,
                                            int64_t num_nodes) {
    const auto array = Array(text, {static_cast<int64_t>(text.size())}, kText);
    const absl::Status status = CheckIdTextHeader(*array);
    if (!status.ok()) return status;
    return CopyIdText(context_, *array, num_nodes,
                      {folder_.path(), "test", "node"});
  }

  static constexpr store::ElementType kText{store::ElementType::Kind::kUint, 1};
  static constexpr store::ElementType kInt64{store::ElementType::Kind::kInt, 8};
  io::ScratchDirectory folder_;
  ImportProgress progress_;
  ImportContext context_{
      io::FileSystem::Posix(), 1 << 20, folder_.Path("scratch"), progress_, {}};
};

TEST_F(IdImportTest, CopiesText) {
  // Text longer than a block.
  std::string text = std::string(300'000, 'a') + "\nb";
  const auto copy = Copy(text, 2);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->file.path, "node.id_text.npy");
  EXPECT_EQ(copy->file.shape[0], 300'002);
  EXPECT_TRUE(Copy("a", 1).ok());
}

TEST_F(IdImportTest, TextOfOtherThanAnIdForEachNodeIsRefused) {
  struct Wrong {
    std::string text;
    std::string problem;
  };
  for (const auto& [text, problem] :
       {Wrong{"a\nb", "edges.txt: has 2 ids; there are 3 nodes"},
        Wrong{"a\nb\nc\nd", "has 4 ids; there are 3 nodes"},
        Wrong{"a\n\nc", "edges.txt: [2] is a line feed without an id"},
        Wrong{"\nb\nc", "[0] is a line feed without an id"},
        Wrong{"a\nb\n", "ends without an id"}, Wrong{"", "ends without"}}) {
    const absl::Status status = Copy(text, 3).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }
}

TEST_F(IdImportTest, ChecksTypesAndShapes) {
  const std::string bytes(16, 'x');
  EXPECT_TRUE(CheckIdHeader(*Array(bytes, {2}, kInt64), 2).ok());
  EXPECT_TRUE(CheckIdTextHeader(*Array(bytes, {16}, kText)).ok());
  for (const absl::Status& status :
       {CheckIdHeader(*Array(bytes, {2}, kInt64), 3),
        CheckIdHeader(*Array(bytes, {16}, kText), 16),
        CheckIdHeader(*Array(bytes, {2, 1}, kInt64), 2),
        CheckIdTextHeader(*Array(bytes, {2}, kInt64)),
        CheckIdTextHeader(*Array(bytes, {4, 4}, kText))}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(" is needed"));
  }
}

}  // namespace

}  // namespace hearth::ingest
