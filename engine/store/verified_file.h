#ifndef HEARTH_ENGINE_STORE_VERIFIED_FILE_H_
#define HEARTH_ENGINE_STORE_VERIFIED_FILE_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"

namespace hearth::store {

/// The file of an array of the dataset in `folder`, every block of which is
/// compared with its checksum whenever it is read: whole blocks in place, a
/// part of one with all of it. What does not match is read once more, and is
/// then DATA_LOSS naming file and block. Opening it reads all checksums and the
/// header, and finds damage there in the same way; checksums are not kept in
/// memory.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFile(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array);

/// The same for a file that is read once, from one end to the other; see
/// io::FileSystem::OpenForScan. CANCELLED after a stop while it is opened.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFileForScan(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_VERIFIED_FILE_H_
