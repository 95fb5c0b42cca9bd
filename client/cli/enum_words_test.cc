#include "client/cli/enum_words.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::cli {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(EnumWords, AreTheValuesNames) {
  EXPECT_THAT(EnumWords<v1::LabelKind>(),
              UnorderedElementsAre(Pair("auto", v1::LABEL_KIND_UNSPECIFIED),
                                   Pair("classes", v1::CLASSES),
                                   Pair("multi-label", v1::MULTI_LABEL),
                                   Pair("targets", v1::TARGETS)));
  EXPECT_EQ(EnumWords<v1::Format>().at("edge-list"), v1::EDGE_LIST);
}

TEST(EnumWord, IsTheNameOrTheNumber) {
  EXPECT_EQ(EnumWord(v1::EDGE_LIST), "edge-list");
  EXPECT_EQ(EnumWord(v1::FORMAT_UNSPECIFIED), "auto");
  EXPECT_EQ(EnumWord(static_cast<v1::Format>(99)), "99");
}

}  // namespace
}  // namespace hearth::cli
