#include "server/storage/deletion_rows.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

// Clients repeat a request for minutes at most.
constexpr absl::Duration kKept = absl::Hours(24);

}  // namespace

absl::StatusOr<Deletion> DeletionRows::Begin(const std::string& request_id,
                                             const std::string& target) {
  HEARTH_RETURN_IF_ERROR(ForgetOld());
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          "SELECT target, done FROM deletions WHERE request_id = ?1"));
  statement.BindText(1, request_id);
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) {
    HEARTH_RETURN_IF_ERROR(Insert(request_id, target));
    return Deletion::kNew;
  }
  if (statement.Bytes(0) != target) {
    return absl::AlreadyExistsError(absl::StrCat(
        "request_id \"", absl::Utf8SafeCEscape(request_id),
        "\" was used to delete ", absl::Utf8SafeCEscape(statement.Bytes(0))));
  }
  return statement.Int64(1) != 0 ? Deletion::kDone : Deletion::kBegun;
}

absl::Status DeletionRows::ForgetOld() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("DELETE FROM deletions WHERE time_ns < ?1"));
  return statement.Bind(1, absl::ToUnixNanos(clock_.Now() - kKept)).Run();
}

absl::Status DeletionRows::Insert(const std::string& request_id,
                                  const std::string& target) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("INSERT INTO deletions (request_id, target, time_ns) "
                        "VALUES (?1, ?2, ?3)"));
  statement.BindText(1, request_id).BindText(2, target);
  return statement.Bind(3, absl::ToUnixNanos(clock_.Now())).Run();
}

absl::Status DeletionRows::End(const std::string& request_id,
                               const absl::Status& outcome) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          outcome.ok() ? "UPDATE deletions SET done = 1 WHERE request_id = ?1"
                       : "DELETE FROM deletions WHERE request_id = ?1"));
  return statement.BindText(1, request_id).Run();
}

}  // namespace hearth::server
