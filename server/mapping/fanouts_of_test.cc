#include "server/mapping/fanouts_of.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FanoutsOfTest, NamesEdgeTypesAndTheirFanouts) {
  EXPECT_THAT(*ParseFanoutsOf(""), IsEmpty());
  const auto parsed = ParseFanoutsOf("paper:cites:paper=15,10;writes=0,-1");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*parsed,
              ElementsAre(job::EdgeTypeFanouts{"paper:cites:paper", {15, 10}},
                          job::EdgeTypeFanouts{"writes", {0, -1}}));
}

TEST(FanoutsOfTest, SaysWhatIsWrong) {
  for (const auto& [text, what] :
       std::vector<std::pair<std::string, std::string>>{
           {"cites", "not \"cites\""},
           {"cites=", "not \"cites=\""},
           {"=5", "not \"=5\""},
           {"cites=5;", "not \"\""},
           {"cites=5,x", "\"x\" of cites"},
           {"cites=-2", "\"-2\" of cites"},
           {"cites=1048577", "\"1048577\" of cites"},
           {"cites=5,,5", "\"\" of cites"},
           {"cites=5;cites=6", "names cites twice"}}) {
    const absl::Status status = ParseFanoutsOf(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

}  // namespace
}  // namespace hearth::server
