#include "engine/base/catch_exceptions.h"

#include <new>
#include <stdexcept>

#include "gtest/gtest.h"

namespace hearth {
namespace {

TEST(CatchExceptionsTest, ReturnsTheStatusOfTheCall) {
  EXPECT_TRUE(CatchExceptions([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(CatchExceptions([] { return absl::AbortedError("no"); }),
            absl::AbortedError("no"));
}

TEST(CatchExceptionsTest, MakesStatusesOfExceptions) {
  EXPECT_EQ(CatchExceptions([]() -> absl::Status { throw std::bad_alloc(); }),
            absl::ResourceExhaustedError("out of memory"));
  EXPECT_EQ(CatchExceptions(
                []() -> absl::Status { throw std::runtime_error("broken"); }),
            absl::InternalError("exception: broken"));
  EXPECT_EQ(CatchExceptions([]() -> absl::Status { throw 7; }),
            absl::InternalError("an exception of unknown type"));
}

}  // namespace
}  // namespace hearth
