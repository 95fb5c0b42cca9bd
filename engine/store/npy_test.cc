#include "engine/store/npy.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Refused files are in numpy_malformed_test.

namespace hearth::store {
namespace {

using testing::ElementsAre;

class NpyTest : public testing::Test {
 protected:
  absl::StatusOr<ArrayHeader> Parse(const std::string& bytes) {
    io::FileSystem& files = io::FileSystem::Posix();
    const std::string path = scratch_.Path("a.npy");
    EXPECT_TRUE(io::WriteFileAtomically(files, path, bytes).ok());
    return ReadNpyHeader(**files.OpenForRead(path));
  }

  io::ScratchDirectory scratch_;
};

TEST_F(NpyTest, ReadsAHeader) {
  const auto header = Parse(ToBytes(
      {.descr = "<i2", .shape = "(2, 3)", .data = std::string(12, '\0')}));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, (ElementType{ElementType::Kind::kInt, 2}));
  EXPECT_FALSE(header->fortran_order);
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  EXPECT_EQ(header->data_offset, 128u);
  EXPECT_EQ(header->NumElements(), 6);
}

struct TypeCase {
  const char* descr;
  ElementType type;
  const char* name;
};

class NpyTypeTest : public NpyTest,
                    public testing::WithParamInterface<TypeCase> {};

TEST_P(NpyTypeTest, IsRead) {
  const auto header =
      Parse(ToBytes({.descr = GetParam().descr,
                     .shape = "(1,)",
                     .data = std::string(GetParam().type.item_bytes, '\0')}));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->type, GetParam().type);
  EXPECT_EQ(Name(header->type), GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    Types, NpyTypeTest,
    testing::Values(TypeCase{"|b1", {ElementType::Kind::kBool, 1}, "bool"},
                    TypeCase{"|i1", {ElementType::Kind::kInt, 1}, "int8"},
                    TypeCase{"<i1", {ElementType::Kind::kInt, 1}, "int8"},
                    TypeCase{"<i4", {ElementType::Kind::kInt, 4}, "int32"},
                    TypeCase{"<i8", {ElementType::Kind::kInt, 8}, "int64"},
                    TypeCase{"|u1", {ElementType::Kind::kUint, 1}, "uint8"},
                    TypeCase{"<u2", {ElementType::Kind::kUint, 2}, "uint16"},
                    TypeCase{"<u4", {ElementType::Kind::kUint, 4}, "uint32"},
                    TypeCase{"<u8", {ElementType::Kind::kUint, 8}, "uint64"},
                    TypeCase{"<f2", {ElementType::Kind::kFloat, 2}, "float16"},
                    TypeCase{"<f4", {ElementType::Kind::kFloat, 4}, "float32"},
                    TypeCase{
                        "<f8", {ElementType::Kind::kFloat, 8}, "float64"}));

TEST_F(NpyTest, AcceptsEveryWayToWriteTheDictionary) {
  for (const char* dictionary :
       {"{'descr':'<f4','fortran_order':True,'shape':(3,)}",
        "{\"shape\": ( 3 , ), \"fortran_order\": True, \"descr\": \"<f4\" , }",
        "  {'fortran_order': True, 'descr': '<f4', 'shape': (3L,)}  "}) {
    const auto header =
        Parse(NpyHeaderText(dictionary, 1) + std::string(12, '\0'));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_TRUE(header->fortran_order);
    EXPECT_THAT(header->shape, ElementsAre(3));
  }
}

TEST_F(NpyTest, AScalarHasOneElement) {
  const auto header = Parse(ToBytes({.shape = "()", .data = "0123"}));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->NumElements(), 1);
}

struct FormatCase {
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t alignment;
  const char* dictionary;
};

class FormatNpyHeaderTest : public NpyTest,
                            public testing::WithParamInterface<FormatCase> {};

TEST_P(FormatNpyHeaderTest, IsPaddedAndReadBack) {
  const FormatCase& format = GetParam();
  const std::string text =
      FormatNpyHeader(format.dtype, format.shape, format.alignment);
  EXPECT_EQ(text.size() % format.alignment, 0u);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text.substr(10, text.find('}') - 9), format.dictionary);
  int64_t bytes = SizeOf(format.dtype);
  for (const int64_t dimension : format.shape) bytes *= dimension;
  const auto header = Parse(text + std::string(bytes, '\0'));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->shape, format.shape);
  EXPECT_EQ(header->data_offset, text.size());
}

INSTANTIATE_TEST_SUITE_P(
    Formats, FormatNpyHeaderTest,
    testing::Values(
        FormatCase{
            DType::kFloat32,
            {3, 4},
            4096,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"},
        FormatCase{DType::kFloat16,
                   {3},
                   64,
                   "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }"},
        FormatCase{
            DType::kBFloat16,
            {1, 1},
            4096,
            "{'descr': '<u2', 'fortran_order': False, 'shape': (1, 1), }"},
        FormatCase{DType::kInt32,
                   {},
                   64,
                   "{'descr': '<i4', 'fortran_order': False, 'shape': (), }"},
        FormatCase{DType::kInt64,
                   {0},
                   64,
                   "{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }"},
        FormatCase{DType::kUint8,
                   {2, 3, 4},
                   32768,
                   "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, "
                   "4), }"}));

}  // namespace
}  // namespace hearth::store
