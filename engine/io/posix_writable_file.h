#ifndef HEARTH_ENGINE_IO_POSIX_WRITABLE_FILE_H_
#define HEARTH_ENGINE_IO_POSIX_WRITABLE_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

/// The files that FileSystem::Posix() creates (private).

namespace hearth::io {

/// FileSystem::Create.
absl::StatusOr<std::unique_ptr<WritableFile>> CreatePosixFile(
    const std::string& path);

/// FileSystem::CreateUncached.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncachedPosixFile(
    const std::string& path);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_POSIX_WRITABLE_FILE_H_
