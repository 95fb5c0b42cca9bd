#include "engine/store/dtype.h"

#include <string>

#include "gtest/gtest.h"

namespace hearth::store {
namespace {

struct Facts {
  DType dtype;
  const char* name;
  int64_t size;
};

class DTypeTest : public testing::TestWithParam<Facts> {};

TEST_P(DTypeTest, HasNameAndSize) {
  EXPECT_EQ(Name(GetParam().dtype), GetParam().name);
  EXPECT_EQ(SizeOf(GetParam().dtype), GetParam().size);
  EXPECT_EQ(*ParseDType(GetParam().name), GetParam().dtype);
}

INSTANTIATE_TEST_SUITE_P(All, DTypeTest,
                         testing::Values(Facts{DType::kFloat32, "float32", 4},
                                         Facts{DType::kFloat16, "float16", 2},
                                         Facts{DType::kBFloat16, "bfloat16", 2},
                                         Facts{DType::kInt32, "int32", 4},
                                         Facts{DType::kInt64, "int64", 8},
                                         Facts{DType::kUint8, "uint8", 1}));

TEST(ParseDTypeTest, RefusesAnythingElse) {
  for (const char* name : {"", "float", "Float32", "float64", "<f4", "int8"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDType(name).status())) << name;
  }
}

}  // namespace
}  // namespace hearth::store
