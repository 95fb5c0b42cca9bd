#include "engine/store/converted_rows.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_writer.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/manifest.h"
#include "engine/store/row_codec.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::store {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 9000;
constexpr int64_t kDim = 31;

class ConvertedRowsTest : public ::testing::TestWithParam<DType> {
 protected:
  ConvertedRowsTest() {
    EXPECT_TRUE(files_.CreateDirectory(folder_).ok());
    std::vector<float> values(kRows * kDim);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<float>(i));
    }
    Import(values);
  }

  // A dataset with these features, of kDim columns.
  void Import(const std::vector<float>& values, bool in_place = false) {
    const int64_t rows = std::ssize(values) / kDim;
    source_.emplace();
    source_->Write("node_feat.npy",
                   {.shape = absl::StrCat("(", rows, ", ", kDim, ")"),
                    .data = Raw(values)});
    source_->Write("node_label.npy", {.descr = "|i1",
                                      .shape = absl::StrCat("(", rows, ",)"),
                                      .data = std::string(rows, '\1')});
    const absl::Status status = hearth::testing::ImportNumpyFolder(
        source_->path(), source_->Destination(), in_place);
    EXPECT_TRUE(status.ok()) << status;
    dataset_ = *Dataset::Open(files_, source_->Destination());
  }

  // A dataset of features alone, which need not be finite.
  void StoreRows(const std::vector<float>& values) {
    const std::string folder = scratch_.Path("stored");
    EXPECT_TRUE(files_.CreateDirectory(folder).ok());
    Manifest manifest;
    manifest.name = "stored";
    manifest.fingerprint = "0123456789abcdef";
    NodeTypeEntry& type = manifest.node_types.emplace_back();
    type.name = "node";
    type.num_nodes = std::ssize(values) / kDim;
    auto writer = *ArrayWriter::Create(
        files_, {.folder = folder, .dataset = "stored", .prefix = "node"},
        "features", DType::kFloat32, {type.num_nodes, kDim}, kRandomAccess);
    EXPECT_TRUE(writer->AppendValues<float>(values).ok());
    type.features = writer->Finish()->file;
    EXPECT_TRUE(io::WriteFileAtomically(
                    files_, io::JoinPath(folder, Manifest::kFileName),
                    SerializeManifest(manifest))
                    .ok());
    dataset_ = *Dataset::Open(files_, folder);
  }

  absl::Status Write(int threads = 2, const std::stop_token& stop = {}) {
    return WriteConverted(
        files_, *dataset_, folder_,
        {.dtype = GetParam(),
         .threads = threads,
         .progress = [this](uint64_t done, uint64_t) { progress_ = done; },
         .stop = stop});
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Open() {
    return OpenConverted(files_, folder_, dataset_->manifest(), GetParam(),
                         nullptr);
  }

  void EmptyFolder() {
    EXPECT_TRUE(files_.RemoveTree(folder_).ok());
    EXPECT_TRUE(files_.CreateDirectory(folder_).ok());
  }

  std::string ReadFile(const std::string& name) {
    return *io::ReadWholeFile(files_, io::JoinPath(folder_, name), 64 << 20);
  }

  std::string rows_file() const {
    return absl::StrCat("0.", RowTypeName(GetParam()), ".npy");
  }

  std::optional<NumpyFolder> source_;
  io::ScratchDirectory scratch_;
  const std::string folder_ = scratch_.Path("copy");
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::unique_ptr<Dataset> dataset_;
  uint64_t progress_ = 0;
};

// The rows of a dataset in CommonFormat, read one by one against checksums.
std::vector<std::string> ReadRows(const Dataset& dataset) {
  const StoredFeatures features = *dataset.OpenFeatures({});
  const auto checks = *dataset.LoadRowChecksums({});
  const auto queues = *io::ReadQueues::Create();
  const auto queue = *queues->Take(8);
  const auto reader = *io::RowReader::Create(*features.device, features.layout,
                                             *queue, {.check = checks.get()});
  std::vector<int64_t> nodes(features.layout.num_rows);
  std::iota(nodes.begin(), nodes.end(), 0);
  std::vector<std::string> rows(nodes.size());
  io::ReadTally tally;
  const absl::Status status = reader->Read(
      nodes,
      [&](size_t position, const std::byte* row) {
        rows[position].assign(reinterpret_cast<const char*>(row),
                              features.layout.row_bytes);
      },
      {}, tally);
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

// What the rows of `dataset`, whose types may differ, are as `dtype`: each
// type's row by itself, with zeros up to the width of the widest.
std::vector<std::string> Expected(const Dataset& dataset, DType dtype) {
  const int64_t dim = CommonFormat(dataset.manifest()).dim;
  std::vector<std::string> rows;
  for (size_t type = 0; type < dataset.manifest().node_types.size(); ++type) {
    const auto features = *dataset.LoadFeatures(Residency::kMemory, {}, type);
    for (int64_t i = 0; i < features->num_rows(); ++i) {
      std::vector<float> values(features->dim());
      for (int64_t column = 0; column < features->dim(); ++column) {
        const std::byte* const at =
            features->row(i) + column * SizeOf(features->dtype());
        if (features->dtype() == DType::kFloat16) {
          uint16_t bits;
          std::memcpy(&bits, at, sizeof(bits));
          values[column] = Float16ToFloat(bits);
        } else {
          std::memcpy(&values[column], at, sizeof(float));
        }
      }
      const int64_t own = RowBytes(features->dim(), dtype);
      std::string row(own, '\0');
      EXPECT_EQ(
          EncodeRow(values, dtype, reinterpret_cast<std::byte*>(row.data())),
          -1);
      row.insert(features->dim() * SizeOf(dtype), RowBytes(dim, dtype) - own,
                 '\0');
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

TEST_P(ConvertedRowsTest, RowsAreThoseOfTheCodec) {
  for (const bool in_place : {false, true}) {
    if (in_place) {
      std::vector<float> values(kRows * kDim, 3);
      Import(values, in_place);
      EmptyFolder();
    }
    ASSERT_EQ(Write(), absl::OkStatus());
    EXPECT_EQ(progress_, kRows * kDim * sizeof(float));
    const std::vector<std::string> expected = Expected(*dataset_, GetParam());
    auto copy = *Open();
    const auto copied = WithConverted(std::move(dataset_), std::move(copy));
    EXPECT_EQ(copied->CheckUnchanged(), absl::OkStatus());
    EXPECT_EQ(CommonFormat(copied->manifest()).dtype, GetParam());
    EXPECT_EQ(ReadRows(*copied), expected);
    const auto loaded = *copied->LoadFeatures(Residency::kMapped);
    const auto scanned = *copied->ScanFeatures();
    std::vector<std::byte> row(loaded->row_bytes());
    EXPECT_EQ(loaded->row_bytes(), scanned.rows.row_bytes);
    for (const int64_t i : {int64_t{0}, int64_t{1}, kRows - 1}) {
      EXPECT_EQ(std::memcmp(loaded->row(i), expected[i].data(), row.size()), 0);
      ASSERT_EQ(scanned.file->Read(scanned.rows.first_offset + i * row.size(),
                                   absl::MakeSpan(row)),
                absl::OkStatus());
      EXPECT_EQ(std::memcmp(row.data(), expected[i].data(), row.size()), 0);
    }
    // The rest is the dataset's own.
    EXPECT_EQ(copied->LoadLabels()->num_nodes(), kRows);
    EXPECT_EQ((*copied->LoadTopology(Residency::kMemory))->view().num_edges(),
              7);
  }
}

TEST_P(ConvertedRowsTest, SizesAreKnownBefore) {
  const Manifest manifest =
      ManifestOfConverted(dataset_->manifest(), GetParam());
  ASSERT_EQ(Write(), absl::OkStatus());
  uint64_t bytes = 0;
  const std::vector<std::string> names = *files_.List(folder_);
  for (const std::string& name : names) {
    if (name != Manifest::kFileName) {
      bytes += files_.Stat(io::JoinPath(folder_, name))->size_bytes;
    }
  }
  EXPECT_EQ(manifest.SizeBytes(), bytes);
  EXPECT_TRUE(TakesLess(dataset_->manifest(), GetParam()));
}

TEST_P(ConvertedRowsTest, ThreadsChangeNoByte) {
  ASSERT_EQ(Write(1), absl::OkStatus());
  const std::string rows = ReadFile(rows_file());
  const std::string manifest = ReadFile(Manifest::kFileName);
  EmptyFolder();
  ASSERT_EQ(Write(5), absl::OkStatus());
  EXPECT_TRUE(ReadFile(rows_file()) == rows);
  EXPECT_EQ(ReadFile(Manifest::kFileName), manifest);
}

TEST_P(ConvertedRowsTest, ACopyOfAnotherDatasetOrTypeIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
  ASSERT_EQ(Write(), absl::OkStatus());
  EXPECT_TRUE(Open().ok());
  Manifest other = dataset_->manifest();
  other.fingerprint = "0123456789abcdef";
  const DType other_type =
      GetParam() == DType::kBFloat16 ? DType::kScaledInt8 : DType::kBFloat16;
  EXPECT_TRUE(absl::IsDataLoss(
      OpenConverted(files_, folder_, other, GetParam(), nullptr).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      OpenConverted(files_, folder_, dataset_->manifest(), other_type, nullptr)
          .status()));
}

TEST_P(ConvertedRowsTest, AFlippedBitIsNamed) {
  ASSERT_EQ(Write(), absl::OkStatus());
  const std::string path = io::JoinPath(folder_, rows_file());
  std::string bytes = ReadFile(rows_file());
  bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
  ASSERT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
  const auto copied =
      WithConverted(std::move(dataset_), *Dataset::Open(files_, folder_));
  for (const absl::Status& status :
       {copied->LoadFeatures(Residency::kMemory).status(),
        copied->VerifyFeatures({})}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST_P(ConvertedRowsTest, AFaultAtAnyCallLeavesNoUnfinishedCopy) {
  // Two rounds of reading.
  Import(std::vector<float>(kRows * kDim, 0.5F));
  int64_t nth = 1;
  for (;; ++nth) {
    EmptyFolder();
    files_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = Write();
    const bool hit = files_.hits() > 0;
    files_.Clear();
    if (!hit) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    // The last calls fail behind a whole copy.
    const auto left = Open();
    if (left.ok()) {
      EXPECT_EQ((*left)->VerifyFeatures({}), absl::OkStatus());
    }
  }
  EXPECT_GT(nth, 10);
  EXPECT_TRUE(Open().ok());
}

TEST_P(ConvertedRowsTest, AFullDiskIsFoundBeforeRowsAreRead) {
  files_.LimitSpace(1000);
  const absl::Status status = Write();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(progress_, 0u);
  EXPECT_FALSE(Open().ok());
}

TEST_P(ConvertedRowsTest, AStopCancels) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Write(1, stop.get_token())));
}

TEST_P(ConvertedRowsTest, ValuesThatAreNotFiniteStayOrAreNamed) {
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> values(kRows * kDim, 1);
    values[7777 * kDim + 5] = bad;
    // Named second, though another thread may come to it first.
    values[8888 * kDim] = bad;
    StoreRows(values);
    EmptyFolder();
    const absl::Status status = Write();
    if (GetParam() == DType::kBFloat16) {
      ASSERT_EQ(status, absl::OkStatus());
      EXPECT_EQ(ReadRows(**Open()), Expected(*dataset_, GetParam()));
      continue;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("column 5 of the features of node 7777 of type \"node\""));
    EXPECT_FALSE(Open().ok());
  }
}

TEST_P(ConvertedRowsTest, EachTypeOfAHeterographIsConvertedByItself) {
  // Features of authors are float16 and the narrowest, or the widest.
  for (const int64_t author_dim : {12, 48}) {
    const auto path = hearth::testing::ImportHeteroGraph(
        {.author_dim = author_dim},
        scratch_.Path(absl::StrCat("typed", author_dim)));
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = *Dataset::Open(files_, *path);
    EXPECT_TRUE(TakesLess(dataset_->manifest(), GetParam()));
    EmptyFolder();
    ASSERT_EQ(Write(), absl::OkStatus());
    const std::vector<std::string> expected = Expected(*dataset_, GetParam());
    auto copy = *Open();
    const auto copied = WithConverted(std::move(dataset_), std::move(copy));
    EXPECT_EQ(ReadRows(*copied), expected);
    const auto loaded = *copied->LoadFeatures(Residency::kMemory);
    EXPECT_EQ(loaded->dtype(), GetParam());
    const auto scanned = *copied->ScanFeatures();
    std::vector<std::byte> all(scanned.rows.num_rows * scanned.rows.row_bytes);
    ASSERT_EQ(
        scanned.file->Read(scanned.rows.first_offset, absl::MakeSpan(all)),
        absl::OkStatus());
    EXPECT_EQ(std::memcmp(all.data(), expected[0].data(), expected[0].size()),
              0);
    EXPECT_EQ(std::memcmp(all.data() + all.size() - expected.back().size(),
                          expected.back().data(), expected.back().size()),
              0);
  }
}

TEST_P(ConvertedRowsTest, AsIfConvertedHasTheLayoutButNoRows) {
  const uint64_t own = dataset_->OpenFeatures({})->device->size_bytes();
  const auto as_if = AsIfConverted(std::move(dataset_), GetParam());
  const StoredFeatures features = *as_if->OpenFeatures({});
  EXPECT_EQ(features.layout.row_bytes, RowBytes(kDim, GetParam()));
  EXPECT_EQ(features.dtype, GetParam());
  EXPECT_EQ(features.device->size_bytes(), own);
  EXPECT_EQ(CommonFormat(as_if->manifest()).dtype, GetParam());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      as_if->LoadFeatures(Residency::kMemory).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(as_if->VerifyFeatures({})));
  EXPECT_TRUE(as_if->LoadLabels().ok());
}

INSTANTIATE_TEST_SUITE_P(Types, ConvertedRowsTest,
                         ::testing::Values(DType::kBFloat16,
                                           DType::kScaledInt8),
                         [](const auto& info) {
                           return std::string(RowTypeName(info.param));
                         });

// Rows of a graph of one node type, `dim` elements of `dtype` each.
Manifest Rows(int64_t dim, DType dtype) {
  Manifest manifest;
  NodeTypeEntry& type = manifest.node_types.emplace_back();
  type.num_nodes = 10;
  type.features.path = "node.features.npy";
  type.features.dtype = dtype;
  type.features.shape = {10, dim};
  return manifest;
}

TEST(TakesLessTest, IsTrueOfFewerBytesAlone) {
  EXPECT_TRUE(TakesLess(Rows(1, DType::kFloat32), DType::kBFloat16));
  EXPECT_FALSE(TakesLess(Rows(8, DType::kFloat16), DType::kBFloat16));
  EXPECT_FALSE(TakesLess(Rows(8, DType::kBFloat16), DType::kBFloat16));
  EXPECT_TRUE(TakesLess(Rows(5, DType::kFloat16), DType::kScaledInt8));
  EXPECT_FALSE(TakesLess(Rows(4, DType::kFloat16), DType::kScaledInt8));
  EXPECT_TRUE(TakesLess(Rows(5, DType::kFloat32), DType::kScaledInt8));
  // bf16 takes as many.
  EXPECT_FALSE(TakesLess(Rows(4, DType::kFloat32), DType::kScaledInt8));
}

}  // namespace
}  // namespace hearth::store
