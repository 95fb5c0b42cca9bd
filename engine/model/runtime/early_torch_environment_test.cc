#include <errno.h>
#include <stdlib.h>

#include <string>

#include "gtest/gtest.h"

namespace {

// Initialized before main, and before other objects of the program.
const char* const wait_policy = getenv("OMP_WAIT_POLICY");

TEST(EarlyTorchEnvironmentTest, IsCompleteBeforeTheProgramBegins) {
  ASSERT_NE(wait_policy, nullptr);
  EXPECT_STREQ(wait_policy, "PASSIVE");
  EXPECT_STREQ(getenv("MKL_DYNAMIC"), "FALSE");
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST(EarlyTorchEnvironmentTest, ArgumentsAndOtherVariablesStay) {
  // Bazel sets it.
  EXPECT_NE(getenv("TEST_TMPDIR"), nullptr);
  EXPECT_EQ(std::string(program_invocation_short_name),
            "early_torch_environment_test");
}

}  // namespace
