#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/model/runtime/torch_startup.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

constexpr char kStartedAnew[] = "HEARTH_TEST_STARTED_ANEW";

// Runs in the program that the other test starts again.
TEST(StartedAnewTest, EnvironmentIsComplete) {
  if (getenv(kStartedAnew) == nullptr) {
    GTEST_SKIP() << "only as a child of the test below";
  }
  EXPECT_STREQ(getenv("MKL_CBWR"), "AUTO");
  EXPECT_STREQ(getenv("MKL_DYNAMIC"), "FALSE");
  EXPECT_STREQ(getenv("OMP_DYNAMIC"), "FALSE");
  EXPECT_STREQ(getenv("OMP_WAIT_POLICY"), "ACTIVE") << "the user's choice";
  EXPECT_STREQ(getenv("LRU_CACHE_CAPACITY"), "64");
  EXPECT_STREQ(getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY"), "128");
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  // Returns, as nothing is missing, instead of starting again forever.
  EnsureTorchEnvironment(nullptr);
}

TEST(TorchEnvironmentTest, StartsAnewWithWhatIsMissing) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    unsetenv("MKL_CBWR");
    setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
    setenv(kStartedAnew, "1", 1);
    char program[] = "torch_environment_test";
    char filter[] = "--gtest_filter=StartedAnewTest.*";
    char* arguments[] = {program, filter, nullptr};
    EnsureTorchEnvironment(arguments);
    _exit(99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hearth::model
