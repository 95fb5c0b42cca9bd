#ifndef HEARTH_ENGINE_STORE_SCAN_ARRAY_H_
#define HEARTH_ENGINE_STORE_SCAN_ARRAY_H_

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"

/// Reads arrays against their block checksums, from one end to the other. What
/// does not match is read once more, and is then DATA_LOSS naming file and
/// block.

namespace hearth::store {

/// Where the array's file is, given the dataset's folder.
std::string ArrayPath(const std::string& folder, const ArrayFile& array);

/// An array's file and the checksums of its blocks.
struct CheckedFile {
  std::unique_ptr<io::ReadableFile> file;
  BlockChecksums checksums;
};

/// Takes the array's file, opened in any way, and loads its checksums.
/// CANCELLED after a stop.
absl::StatusOr<CheckedFile> WithChecksums(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> file, const std::stop_token& stop);

/// Reads block `number` of the array's data once more, because its bytes did
/// not match their checksum: damage on the way is gone then, damage on disk is
/// not. DATA_LOSS naming file and block if they are not of checksum `crc32c`
/// now; an error of reading names the block, too.
absl::Status ReadBlockAgain(io::ReadableFile& data, const ArrayFile& array,
                            uint64_t number, uint32_t crc32c,
                            absl::Span<std::byte> block);

/// Checks one block, the data's bytes from `begin` on, which were read into
/// `block`; if it does not match, it is read there once more.
absl::Status CheckBlock(const CheckedFile& from, const ArrayFile& array,
                        uint64_t begin, absl::Span<std::byte> block);

/// Reads the data's bytes from `begin`, at which a block begins, into `out`,
/// which ends where a block does.
absl::Status ReadChecked(const CheckedFile& from, const ArrayFile& array,
                         uint64_t begin, absl::Span<std::byte> out);

/// Reads the array of the dataset in `folder` past the page cache, and hands
/// its data to `use`, part by part. The first error of it; CANCELLED after a
/// stop.
absl::Status ScanArray(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop,
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> use);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_SCAN_ARRAY_H_
