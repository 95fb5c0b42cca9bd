#include "client/cli/options_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hearth::cli {
namespace {

TEST(OptionsPage, IsTheOneInTheTree) {
  std::ifstream file("client/OPTIONS.md");
  ASSERT_TRUE(file);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), OptionsPage())
      << "bazel run //client/cli:write_options_page > client/OPTIONS.md "
         "writes it anew";
}

}  // namespace
}  // namespace hearth::cli
