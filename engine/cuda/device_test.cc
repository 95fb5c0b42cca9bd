#include "engine/cuda/device.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string PathOf(const std::string& name) {
  return "engine/cuda/libtest_" + name + ".so";
}

std::string WhyNot(const std::string& path) {
  const absl::Status status = Plugin::Load(path).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  return std::string(status.message());
}

TEST(PluginTest, HasItsDevices) {
  const auto plugin = Plugin::Load(PathOf("two_devices"));
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto devices = (*plugin)->Devices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ(devices->back().number, 1);
  EXPECT_EQ(*(*plugin)->NameOf(devices->back()), "test device 1");
}

TEST(PluginTest, SaysThatThereIsNoDevice) {
  const absl::Status none =
      (*Plugin::Load(PathOf("no_devices")))->Devices().status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("0 devices"));
  const absl::Status error =
      (*Plugin::Load(PathOf("broken_driver")))->Devices().status();
  EXPECT_TRUE(absl::IsUnavailable(error)) << error;
  EXPECT_THAT(std::string(error.message()), HasSubstr("no driver today"));
  if (std::filesystem::exists("/proc/driver/nvidia/version")) return;
  const absl::Status missing =
      (*Plugin::Load(PathOf("no_driver")))->Devices().status();
  EXPECT_TRUE(absl::IsUnavailable(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no NVIDIA driver"));
}

TEST(PluginTest, SaysWhyAFileIsNone) {
  EXPECT_THAT(WhyNot("no/such/file.so"), HasSubstr("HEARTH_CUDA_PLUGIN"));
  EXPECT_THAT(WhyNot(PathOf("no_symbol")), HasSubstr("no plug-in"));
  EXPECT_THAT(WhyNot(PathOf("other_version")),
              HasSubstr(absl::StrCat("of version ", HEARTH_CUDA_VERSION)));
  EXPECT_THAT(WhyNot(PathOf("older")), HasSubstr("older"));
  const std::string text = ::testing::TempDir() + "text.so";
  std::ofstream(text) << std::string(4096, 'x');
  EXPECT_THAT(WhyNot(text), HasSubstr("invalid ELF header"));
}

TEST(PluginTest, IsNamedByTheEnvironmentOrBesideTheBinary) {
  ASSERT_EQ(::setenv("HEARTH_CUDA_PLUGIN", "/some/where.so", 1), 0);
  EXPECT_EQ(Plugin::DefaultPath(), "/some/where.so");
  for (const bool empty : {true, false}) {
    ASSERT_EQ(empty ? ::setenv("HEARTH_CUDA_PLUGIN", "", 1)
                    : ::unsetenv("HEARTH_CUDA_PLUGIN"),
              0);
    const std::string path = Plugin::DefaultPath();
    EXPECT_THAT(path, StartsWith("/"));
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    EXPECT_EQ(path, folder + "libhearth_cuda.so");
    EXPECT_EQ(::access((folder + "device_test").c_str(), X_OK), 0) << folder;
  }
}

TEST(PluginTest, TheRealOneLoadsWithoutADriver) {
  const std::string path = "kernels/cuda/libhearth_cuda.so";
  if (::access(path.c_str(), F_OK) != 0) {
    GTEST_SKIP() << "no " << path
                 << ": it is not built without the CUDA toolkit";
  }
  const auto plugin = Plugin::Load(path);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto devices = (*plugin)->Devices();
  if (!devices.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(devices.status())) << devices.status();
    return;
  }
  const auto name = (*plugin)->NameOf(devices->front());
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_NE(*name, "");
}

}  // namespace
}  // namespace hearth::cuda
