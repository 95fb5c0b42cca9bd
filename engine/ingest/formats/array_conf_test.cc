#include "engine/ingest/formats/array_conf.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/array_header.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ArrayConfTest : public testing::Test {
 protected:
  absl::StatusOr<ArrayConf> Read(const std::string& text) {
    EXPECT_TRUE(io::WriteFileAtomically(files_, path_, text).ok());
    return ArrayConf::Read(files_, path_);
  }

  /// The header of the array "x", with a node count beside its fields.
  absl::StatusOr<store::ArrayHeader> Header(const std::string& fields,
                                            const std::string& prefix = "") {
    const auto conf = Read("{\"num_nodes\": 3, " + fields + "}");
    EXPECT_TRUE(conf.ok()) << conf.status();
    if (!conf.ok()) return conf.status();
    return conf->Header("x", prefix);
  }

  void ExpectInvalid(const absl::Status& status, const std::string& problem) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("conf.json");
};

TEST_F(ArrayConfTest, ReadsNodesAndArrays) {
  const auto header =
      Header(R"("x_shape": [3, 128], "x_dtype": "float32", "other": {})");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT(header->shape, ElementsAre(3, 128));
  EXPECT_EQ(header->type,
            (store::ElementType{store::ElementType::Kind::kFloat, 4}));
  EXPECT_EQ(header->data_offset, 0u);
  EXPECT_FALSE(header->fortran_order);
  EXPECT_EQ(Read(R"({"num_nodes": 0})")->num_nodes(), 0);
  EXPECT_EQ(Read(R"({"num_nodes": 9223372036854775807})")->num_nodes(),
            INT64_MAX);
  EXPECT_EQ(*Read(R"({"num_nodes": 1, "y": 7})")->Number("y"), 7);
}

TEST_F(ArrayConfTest, TypesMayHaveAPrefix) {
  for (const char* type : {"torch.int64", "int64"}) {
    const auto header = Header(
        std::string(R"("x_shape": [], "x_dtype": ")") + type + "\"", "torch.");
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_THAT(header->shape, IsEmpty());
    EXPECT_EQ(header->type,
              (store::ElementType{store::ElementType::Kind::kInt, 8}));
  }
  ExpectInvalid(Header(R"("x_shape": [1], "x_dtype": "torch.int64")").status(),
                "x_dtype");
}

TEST_F(ArrayConfTest, FilesThatAreMissingOrNoJson) {
  ExpectInvalid(ArrayConf::Read(files_, path_).status(), "is missing");
  for (const char* text : {"", "{", "[]", "7", "{\"num_nodes\": 3,}",
                           "{\"num_nodes\": 3, \"num_nodes\": 3}"}) {
    ExpectInvalid(Read(text).status(), "");
  }
  const absl::Status status =
      Read("{\"num_nodes\": 3" + std::string(64 << 10, ' ') + "}").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(ArrayConfTest, FieldsThatAreMissingOrWrong) {
  for (const char* nodes :
       {"{}", R"({"num_nodes": -1})", R"({"num_nodes": "3"})",
        R"({"num_nodes": 1.5})", R"({"num_nodes": 9223372036854775808})"}) {
    ExpectInvalid(Read(nodes).status(), "num_nodes");
  }
  ExpectInvalid(Header(R"("x_dtype": "float32")").status(), "x_shape");
  ExpectInvalid(Header(R"("x_shape": [2, -1], "x_dtype": "int8")").status(),
                "x_shape");
  ExpectInvalid(Header(R"("x_shape": 2, "x_dtype": "int8")").status(),
                "x_shape");
  ExpectInvalid(Header(R"("x_shape": [2])").status(), "x_dtype");
  for (const char* type : {"\"\"", "\"float31\"", "\"object\"", "5"}) {
    ExpectInvalid(
        Header(std::string(R"("x_shape": [2], "x_dtype": )") + type).status(),
        "x_dtype");
  }
}

}  // namespace
}  // namespace hearth::ingest
