#include "engine/base/wait_cause.h"

#include <cerrno>

#include "engine/base/status_annotate.h"
#include "gtest/gtest.h"

namespace hearth {
namespace {

TEST(WaitCauseTest, IsThatOfTheSystemCall) {
  for (const int error : {ENOSPC, EDQUOT}) {
    EXPECT_EQ(WaitCauseOf(ErrnoStatus(error, "/a", "writing")),
              WaitCause::kDiskSpace);
  }
  EXPECT_EQ(WaitCauseOf(ErrnoStatus(EIO, "/a", "reading")), WaitCause::kDisk);
  for (const int error : {ENOENT, EACCES, ENOMEM}) {
    EXPECT_EQ(WaitCauseOf(ErrnoStatus(error, "/a", "opening")),
              WaitCause::kNone);
  }
}

TEST(WaitCauseTest, SurvivesAnnotations) {
  EXPECT_EQ(WaitCauseOf(Annotate(ErrnoStatus(ENOSPC, "/a", "writing"), "job")),
            WaitCause::kDiskSpace);
}

TEST(WaitCauseTest, OtherErrorsAreFinal) {
  EXPECT_EQ(WaitCauseOf(absl::OkStatus()), WaitCause::kNone);
  EXPECT_EQ(WaitCauseOf(absl::ResourceExhaustedError("too large")),
            WaitCause::kNone);
  EXPECT_EQ(WaitCauseOf(absl::DataLossError("torn")), WaitCause::kNone);
}

TEST(WaitCauseTest, IsSetForDiskSpaceThatIsKnownToLack) {
  EXPECT_EQ(WaitCauseOf(WaitForDiskSpace(absl::ResourceExhaustedError("x"))),
            WaitCause::kDiskSpace);
}

TEST(WaitCauseTest, IsSetForSpaceOfPlansInUse) {
  const absl::Status status =
      Annotate(WaitForPlanSpace(absl::ResourceExhaustedError("x"), 7), "job");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kPlanSpace);
  EXPECT_EQ(BytesNeededBy(status), 7u);
}

TEST(WaitCauseTest, KeepsTheBytesNeeded) {
  const absl::Status status =
      Annotate(WaitForMemoryError("much", uint64_t{5} << 40), "job");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kMemory);
  EXPECT_EQ(BytesNeededBy(status), uint64_t{5} << 40);
  EXPECT_EQ(BytesNeededBy(absl::ResourceExhaustedError("x")), 0u);
}

}  // namespace
}  // namespace hearth
