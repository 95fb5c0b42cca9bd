#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "engine/model/runtime/torch_startup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string WhyNot(const std::string& path) {
  const absl::Status status = LoadGpuTorch(path);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

bool HasDriver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

TEST(GpuTorchTest, NeedsADriver) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver";
  EXPECT_THAT(WhyNot("/no/such/file"),
              AllOf(HasSubstr("NVIDIA driver"), HasSubstr("libcuda.so.1")));
}

TEST(GpuTorchTest, SaysWhyAFileIsNone) {
  // Once loaded, the library is found by the name inside it.
  ASSERT_NE(::dlopen("engine/model/runtime/libtest_driver.so", RTLD_NOW),
            nullptr)
      << ::dlerror();
  ASSERT_TRUE(HasDriver());
  EXPECT_THAT(
      WhyNot("/no/such/file.so"),
      AllOf(HasSubstr("/no/such/file.so"), HasSubstr("HEARTH_TORCH_CUDA")));
  const std::string text = ::testing::TempDir() + "text.so";
  std::ofstream(text) << std::string(4096, 'x');
  EXPECT_THAT(WhyNot(text),
              AllOf(HasSubstr(text), HasSubstr("invalid ELF header")));
}

TEST(GpuTorchTest, IsNamedByTheEnvironmentOrBesideTheBinary) {
  ASSERT_EQ(::setenv("HEARTH_TORCH_CUDA", "/some/where.so", 1), 0);
  EXPECT_EQ(GpuTorchPath(), "/some/where.so");
  ASSERT_EQ(::unsetenv("HEARTH_TORCH_CUDA"), 0);
  EXPECT_THAT(GpuTorchPath(),
              AllOf(StartsWith("/"),
                    EndsWith("/torch_cuda/torch/lib/libtorch_cuda.so")));
}

}  // namespace
}  // namespace hearth::model
