#include "engine/base/process.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ProcessTest, TheMachineHasMemoryAvailable) {
  EXPECT_GT(AvailableMemoryBytes(), uint64_t{1} << 20);
}

TEST(ProcessTest, ReadBytesNeverShrink) {
  const uint64_t before = ProcessReadBytes();
  EXPECT_GE(ProcessReadBytes(), before);
}

}  // namespace
}  // namespace hearth
