#ifndef HEARTH_SERVER_STORAGE_DELETION_ROWS_H_
#define HEARTH_SERVER_STORAGE_DELETION_ROWS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

/// How far a deletion has come.
enum class Deletion { kNew, kBegun, kDone };

/// The table of deletions, by the ids of their requests, so that one that is
/// repeated neither fails nor deletes what has the name by then. The caller
/// makes the transactions. Thread-compatible.
class DeletionRows {
 public:
  /// Both must outlive this. REQUIRES: the tables are there.
  DeletionRows(Database& database, const Clock& clock)
      : database_(database), clock_(clock) {}

  /// See JobStore.
  absl::StatusOr<Deletion> Begin(const std::string& request_id,
                                 const std::string& target);
  absl::Status End(const std::string& request_id, const absl::Status& outcome);

 private:
  absl::Status ForgetOld();
  absl::Status Insert(const std::string& request_id, const std::string& target);

  Database& database_;
  const Clock& clock_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DELETION_ROWS_H_
