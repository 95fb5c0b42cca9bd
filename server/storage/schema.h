#ifndef HEARTH_SERVER_STORAGE_SCHEMA_H_
#define HEARTH_SERVER_STORAGE_SCHEMA_H_

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

/// Version of the tables that this program reads and writes; a database holds
/// its own in `PRAGMA user_version`, 0 while it is empty.
int SchemaVersion();

/// Makes the tables of an empty database, or brings those of an older version
/// to today's, version by version, each in a transaction. A database that is
/// not empty is first copied to PATH.before-vN, N = SchemaVersion(), which is
/// kept. FAILED_PRECONDITION for a newer version; then nothing is changed.
absl::Status UpdateSchema(io::FileSystem& files, Database& database);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_SCHEMA_H_
