#include "engine/base/status_annotate.h"

#include <cerrno>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "engine/base/status_macros.h"
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

}  // namespace
}  // namespace hearth
