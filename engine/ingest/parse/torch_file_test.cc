#include "engine/ingest/parse/torch_file.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// torch, numpy and DGL wrote the files in testdata/; make_files.py says how.

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string FileBytes(const std::string& name) {
  const std::string path = "engine/ingest/parse/testdata/" + name;
  auto file = io::FileSystem::Posix().OpenForRead(path);
  EXPECT_TRUE(file.ok()) << file.status();
  std::string bytes((*file)->Info()->size_bytes, '\0');
  EXPECT_TRUE(
      (*file)
          ->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()),
                                   bytes.size()))
          .ok());
  return bytes;
}

absl::StatusOr<std::unique_ptr<TorchFile>> Open(const std::string& bytes) {
  return TorchFile::Open(io::NewMemoryFile(bytes, "a.pt"));
}

template <typename T>
std::vector<T> Elements(const TorchFile& file, const PickleValue* value) {
  const auto* const tensor = value->As<TorchTensor>();
  EXPECT_NE(tensor, nullptr);
  const auto elements = file.OpenTensor(*tensor);
  EXPECT_TRUE(elements.ok()) << elements.status();
  std::vector<T> out(elements->size_bytes / sizeof(T));
  const auto bytes = absl::MakeSpan(reinterpret_cast<std::byte*>(out.data()),
                                    elements->size_bytes);
  EXPECT_TRUE(elements->file->Read(elements->offset, bytes).ok());
  return out;
}

class TorchValuesTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    bytes_ = FileBytes(GetParam());
    auto file = Open(bytes_);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  const PickleValue& Value(absl::string_view key) {
    const PickleValue* const value = file_->root().Find(key);
    EXPECT_NE(value, nullptr) << key;
    return *value;
  }

  template <typename T>
  T As(absl::string_view key) {
    const T* const found = Value(key).As<T>();
    EXPECT_NE(found, nullptr) << key << " is " << Value(key).KindName();
    return found == nullptr ? T{} : *found;
  }

  std::string bytes_;
  std::unique_ptr<TorchFile> file_;
};

TEST_P(TorchValuesTest, Scalars) {
  As<std::monostate>("none");
  EXPECT_EQ(As<bool>("true"), true);
  EXPECT_EQ(As<int64_t>("int"), -5);
  EXPECT_EQ(As<int64_t>("long"), int64_t{1} << 40);
  EXPECT_EQ(As<int64_t>("least"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(As<double>("float"), 1.5);
  EXPECT_EQ(As<std::string>("text"), "pa\xC3\xBCs");
  EXPECT_EQ(As<PickleBytes>("bytes").data, std::string("\0\xFF", 2));
  EXPECT_EQ(As<PickleBytes>("no_bytes").data, "");
  EXPECT_EQ(file_->root().Find("absent"), nullptr);
  EXPECT_EQ(Value("int").Find("x"), nullptr);
}

TEST_P(TorchValuesTest, Containers) {
  const auto list = As<PickleList>("list");
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[1]->As<PickleList>()->items.size(), 1u);
  EXPECT_EQ(*As<PickleTuple>("tuple").items[1]->As<std::string>(), "a");
  EXPECT_EQ(*As<PickleTuple>("size").items[1]->As<int64_t>(), 3);
  const auto ordered = As<PickleDict>("ordered");
  ASSERT_EQ(ordered.items.size(), 2u);
  EXPECT_EQ(*ordered.items[0].first->As<std::string>(), "b");
  const auto& items = file_->root().As<PickleDict>()->items;
  EXPECT_EQ(*items[11].first->As<int64_t>(), 7);
  EXPECT_EQ(*items[11].second->As<std::string>(), "seven");
}

TEST_P(TorchValuesTest, NumpyArrays) {
  const auto array = As<NumpyArray>("numpy");
  EXPECT_EQ(Name(array.type), "int64");
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_FALSE(array.fortran_order);
  ASSERT_EQ(array.data.size(), 48u);
  EXPECT_EQ(array.data[40], 5);
  const auto fortran = As<NumpyArray>("fortran");
  EXPECT_TRUE(fortran.fortran_order);
  std::vector<float> elements(4);
  ASSERT_EQ(fortran.data.size(), 16u);
  std::memcpy(elements.data(), fortran.data.data(), 16);
  EXPECT_THAT(elements, ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(As<NumpyArray>("mask").data, absl::string_view("\1\0", 2));
  const auto scalar = As<NumpyArray>("scalar");
  EXPECT_EQ(Name(scalar.type), "float64");
  EXPECT_TRUE(scalar.shape.empty());
}

TEST_P(TorchValuesTest, Tensors) {
  EXPECT_EQ(Elements<float>(*file_, &Value("base")).back(), 11);
  EXPECT_THAT(Elements<float>(*file_, &Value("row")), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Elements<int16_t>(*file_, &Value("one")), ElementsAre(3));
  EXPECT_EQ(Elements<double>(*file_, &Value("empty")).size(), 0u);
  EXPECT_THAT(As<TorchTensor>("empty").shape, ElementsAre(0, 5));
  EXPECT_EQ(Elements<float>(*file_, &Value("thin")).size(), 12u);
  EXPECT_THAT(As<TorchTensor>("thin").shape, ElementsAre(1, 12));
  EXPECT_THAT(Elements<uint16_t>(*file_, &Value("parameter")),
              ElementsAre(0x3F80, 0x3F80));
  EXPECT_THAT(Elements<uint16_t>(*file_, &Value("float16")),
              ElementsAre(0x3C00, 0));
  EXPECT_THAT(Elements<int8_t>(*file_, &Value("int8")), ElementsAre(1, 0));
  EXPECT_THAT(Elements<int32_t>(*file_, &Value("int32")), ElementsAre(1, 0));
  EXPECT_THAT(Elements<int64_t>(*file_, &Value("int64")), ElementsAre(1, 0));
  EXPECT_THAT(Elements<uint8_t>(*file_, &Value("uint8")), ElementsAre(1, 0));
  EXPECT_THAT(Elements<uint8_t>(*file_, &Value("bool")), ElementsAre(1, 0));
  for (const char* type :
       {"float16", "int8", "int32", "int64", "uint8", "bool"}) {
    EXPECT_STREQ(Name(As<TorchTensor>(type).type()), type);
  }
}

TEST_P(TorchValuesTest, ElementsLieInTheFile) {
  const auto elements = file_->OpenTensor(As<TorchTensor>("row"));
  ASSERT_TRUE(elements.ok() && elements->offset_in_archive.has_value());
  float first;
  std::memcpy(&first, bytes_.data() + *elements->offset_in_archive, 4);
  EXPECT_EQ(first, 4);
}

TEST_P(TorchValuesTest, TensorsWithGapsAreRefused) {
  const auto refused = file_->OpenTensor(As<TorchTensor>("transposed"));
  EXPECT_EQ(refused.status().message(),
            "a.pt: has a tensor of shape (4, 3) and strides (1, 4), which is "
            "not contiguous; save it after .contiguous()");
}

TEST_P(TorchValuesTest, EveryTruncationIsRefused) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const absl::Status status = Open(bytes_.substr(0, size)).status();
    ASSERT_TRUE(absl::IsInvalidArgument(status) || absl::IsDataLoss(status))
        << size << status;
    ASSERT_TRUE(absl::StartsWith(status.message(), "a.pt: ")) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TorchValuesTest,
                         testing::Values("values.pt", "values_protocol5.pt",
                                         "values_old.pth"));

const PickleValue* GraphState(const TorchFile& file) {
  const auto* const graph = file.root().As<PickleObject>();
  EXPECT_EQ(graph->class_name,
            "dgl.graphbolt.impl.fused_csc_sampling_graph."
            "FusedCSCSamplingGraph");
  const auto* const script =
      graph->state->Find("_c_csc_graph")->As<PickleObject>();
  EXPECT_EQ(script->class_name, "torch.ScriptObject");
  const auto* const pair = script->state->As<PickleTuple>();
  EXPECT_EQ(*pair->items[1]->As<std::string>(),
            "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph");
  return pair->items[0];
}

TEST(TorchFileTest, ReadsGraphBoltsGraph) {
  const auto file = Open(FileBytes("graphbolt_homogeneous.pt"));
  ASSERT_TRUE(file.ok()) << file.status();
  const PickleValue* const state = GraphState(**file);
  const PickleValue* const tensors = state->Find("independent_tensors");
  EXPECT_THAT(Elements<int64_t>(**file, tensors->Find("indptr")),
              ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(Elements<int64_t>(**file, tensors->Find("indices")),
              ElementsAre(1, 2, 0, 0, 1));
  EXPECT_EQ(tensors->Find("type_per_edge"), nullptr);
  EXPECT_EQ(state->Find("node_type_to_id"), nullptr);
}

TEST(TorchFileTest, ReadsGraphBoltsHeterograph) {
  const auto file = Open(FileBytes("graphbolt_heterogeneous.pt"));
  ASSERT_TRUE(file.ok()) << file.status();
  const PickleValue* const state = GraphState(**file);
  const PickleValue* const tensors = state->Find("independent_tensors");
  EXPECT_THAT(Elements<int32_t>(**file, tensors->Find("indptr")),
              ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(Elements<int64_t>(**file, tensors->Find("node_type_offset")),
              ElementsAre(0, 2, 3));
  EXPECT_THAT(Elements<uint8_t>(**file, tensors->Find("type_per_edge")),
              ElementsAre(0, 0, 1, 0, 1));
  const PickleValue* const paper =
      state->Find("node_type_to_id")->Find("paper");
  EXPECT_TRUE(paper->As<TorchTensor>()->shape.empty());
  EXPECT_THAT(Elements<int64_t>(**file, paper), ElementsAre(1));
  EXPECT_THAT(
      Elements<int64_t>(
          **file, state->Find("edge_type_to_id")->Find("paper:cites:author")),
      ElementsAre(1));
  EXPECT_THAT(
      Elements<float>(**file, state->Find("node_attributes")->Find("age")),
      ElementsAre(1, 2, 3));
}

TEST(TorchFileTest, OtherClassesAreRefused) {
  const absl::Status status = Open(FileBytes("foreign_class.pt")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.pkl: pickle, byte "));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("PurePosixPath, which is not among what is read"));
}

// A tensor of `count` int64 in storage "0", of which the file has `held`.
std::string OneTensor(int count, int held, bool deflate = false,
                      const std::string& order = "little") {
  const auto number = [](int value) {
    return absl::StrCat("K", std::string(1, static_cast<char>(value)));
  };
  const std::string pickle = absl::StrCat(
      "\x80\x02", "ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storage",
      "ctorch\nLongStorage\n\x8c\x01", "0", "\x8c\x03", "cpu", number(count),
      "tQ", number(0), number(count), "\x85", number(1), "\x85\x89}tR.");
  return BuildZip({{.name = "x/data.pkl", .contents = pickle},
                   {.name = "x/byteorder", .contents = order},
                   {.name = "x/data/0",
                    .contents = std::string(8 * held, '\1'),
                    .deflate = deflate}});
}

absl::Status OpenOne(const std::string& bytes) {
  const auto file = Open(bytes);
  if (!file.ok()) return file.status();
  return (*file)->OpenTensor(*(*file)->root().As<TorchTensor>()).status();
}

TEST(TorchFileTest, StoragesMustHaveTheirSize) {
  EXPECT_TRUE(OpenOne(OneTensor(3, 3)).ok()) << OpenOne(OneTensor(3, 3));
  EXPECT_EQ(OpenOne(OneTensor(3, 2)).ToString(),
            "DATA_LOSS: a.pt: storage \"0\" has 16 bytes, the pickle says 3 "
            "elements of int64");
  EXPECT_TRUE(absl::IsDataLoss(OpenOne(OneTensor(3, 4))));
}

TEST(TorchFileTest, CompressedStoragesAreNotInPlace) {
  const auto file = Open(OneTensor(3, 3, true));
  ASSERT_TRUE(file.ok());
  const auto elements = (*file)->OpenTensor(*(*file)->root().As<TorchTensor>());
  ASSERT_TRUE(elements.ok());
  EXPECT_FALSE(elements->offset_in_archive.has_value());
  EXPECT_EQ(Elements<int64_t>(**file, &(*file)->root()).size(), 3u);
}

TEST(TorchFileTest, BigEndianFilesAreRefused) {
  EXPECT_EQ(OpenOne(OneTensor(1, 1, false, "big")).message(),
            "a.pt: x/byteorder: is \"big\"; little is read");
}

TEST(TorchFileTest, OtherZipFilesAreRefused) {
  EXPECT_EQ(OpenOne(BuildZip({{.name = "a.npy"}})).message(),
            "a.pt: is a zip file without PyTorch's data.pkl");
  EXPECT_EQ(OpenOne(BuildZip({{.name = "a/data.pkl"}, {.name = "b/data.pkl"}}))
                .message(),
            "a.pt: has several data.pkl");
  EXPECT_EQ(
      OpenOne(BuildZip({{.name = "x/data.pkl", .contents = "\x80\x02N.."}}))
          .message(),
      "a.pt: x/data.pkl: goes on after its pickle, at byte 4");
  EXPECT_EQ(OpenOne("hello").message(),
            "a.pt: is not a PyTorch file: it begins with other bytes");
}

/// A file of the old format: magic, then `pickles`.
std::string Old(const std::string& pickles) {
  return std::string(
             "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15) +
         pickles;
}

TEST(TorchFileTest, TheOldFormatIsChecked) {
  const std::string p = "\x80\x02";
  const std::string version = p + "M\xe9\x03.";
  const std::string writer =
      p + std::string("}X\x0d\0\0\0little_endian\x88s.", 22);
  EXPECT_TRUE(Open(Old(version + writer + p + "N." + p + "].")).ok());
  EXPECT_EQ(OpenOne(Old(p + "K\x02.")).message(),
            "a.pt: has a version of the old format other than 1001");
  EXPECT_EQ(OpenOne(Old(version + p + "}.")).message(),
            "a.pt: does not say that it is little-endian");
  EXPECT_EQ(OpenOne(Old(version + writer + p + "N." + p + "N.")).message(),
            "a.pt: has no list of storages");
  EXPECT_EQ(OpenOne(Old(version + writer + p + "N." + p + "]K\1a.")).message(),
            "a.pt: lists a storage that nothing refers to");
  EXPECT_THAT(
      std::string(
          OpenOne(Old(version + writer + p + "N." + p + "].x")).message()),
      HasSubstr("goes on after its storages"));
}

TEST(TorchFileTest, OldStoragesMustHaveTheirSize) {
  std::string bytes = FileBytes("values_old.pth");
  // The last storage: its count comes before its elements.
  bytes[bytes.size() - 2 - 8] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(Open(bytes).status())) << Open(bytes).status();
}

}  // namespace
}  // namespace hearth::ingest
