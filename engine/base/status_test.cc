#include "engine/base/status.h"

#include <cerrno>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace hearth {

namespace {

TEST(AnnotateTest, PutsTheContextFirst) {
  const absl::Status status = Annotate(absl::DataLossError("torn"), "a.npy");
  EXPECT_EQ(status, absl::DataLossError("a.npy: torn"));
}

TEST(AnnotateTest, KeepsPayloads) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("type.test/detail", absl::Cord("the detail"));
  const auto payload =
      Annotate(status, "context").GetPayload("type.test/detail");
  ASSERT_TRUE(payload.has_value());
  EXPECT_EQ(std::string(*payload), "the detail");
}

TEST(AnnotateTest, LeavesOkAlone) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok());
}

TEST(ErrnoStatusTest, NamesSubjectOperationAndReason) {
  const absl::Status status = ErrnoStatus(ENOENT, "/a", "opening");
  EXPECT_EQ(status,
            absl::NotFoundError("/a: opening: No such file or directory"));
}

TEST(ErrnoStatusTest, MapsWhatCallersActOn) {
  for (const int error : {ENOSPC, EDQUOT, ENOMEM}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(error, "f", "writing")));
  }
  EXPECT_TRUE(absl::IsUnavailable(ErrnoStatus(EIO, "f", "reading")));
  EXPECT_TRUE(absl::IsPermissionDenied(ErrnoStatus(EACCES, "f", "opening")));
}

absl::Status FailIf(bool fail) {
  return fail ? absl::AbortedError("told to") : absl::OkStatus();
}

absl::StatusOr<int> Increment(absl::StatusOr<int> value, bool fail) {
  HEARTH_ASSIGN_OR_RETURN(const int got, value);
  HEARTH_RETURN_IF_ERROR(FailIf(fail));
  return got + 1;
}

TEST(StatusMacrosTest, PassValuesAndReturnErrors) {
  EXPECT_EQ(*Increment(1, false), 2);
  EXPECT_EQ(Increment(1, true).status(), absl::AbortedError("told to"));
  EXPECT_EQ(Increment(absl::NotFoundError("none"), false).status(),
            absl::NotFoundError("none"));
}

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
